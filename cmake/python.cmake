# NEAR_PYTHON: the interpreter for the tests' scripts; `./near` sets it to the virtual
# environment's.

set(NEAR_PYTHON "" CACHE FILEPATH "Python 3.11 or newer for the tests; found when empty")
if(NOT NEAR_PYTHON)
  find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
  set(NEAR_PYTHON ${Python3_EXECUTABLE})
endif()
