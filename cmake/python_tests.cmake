# near_python_tests(<label>): each tests/test_<name>.py of the calling folder is a test
# <label>.<name>, with this build's programs and library.
function(near_python_tests label)
  set(modules driver lab tools vm/py tests/support)
  list(TRANSFORM modules PREPEND ${PROJECT_SOURCE_DIR}/)
  list(JOIN modules ":" modules)
  set(environment
    PYTHONDONTWRITEBYTECODE=1
    PYTHONPATH=${modules}
    NEAR_LAB_BUILD=${PROJECT_BINARY_DIR}/lab
    NEAR_LIBRARY=${PROJECT_BINARY_DIR}/libnearmalloc.so)
  file(GLOB test_files CONFIGURE_DEPENDS tests/test_*.py)
  foreach(file IN LISTS test_files)
    string(REGEX REPLACE ".*/test_(.*)\\.py" "${label}.\\1" name ${file})
    add_test(NAME ${name} COMMAND ${NEAR_PYTHON} -m pytest -q -p no:cacheprovider ${file})
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 900
      ENVIRONMENT "${environment}")
    near_tier(${name})
  endforeach()
endfunction()
