# Functions that the folders of tests use, and near_test_main: the main program of GoogleTest
# executables here.

# What a test needs to call the malloc family by name and to see every call happen.
add_library(near_test_flags INTERFACE)
target_link_libraries(near_test_flags INTERFACE near_flags Threads::Threads ${CMAKE_DL_LIBS})
target_include_directories(near_test_flags INTERFACE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(near_test_flags INTERFACE
  -fno-builtin -Wno-deprecated-declarations $<$<CXX_COMPILER_ID:GNU>:-fno-allocation-dce>)

# The tests' own code is compiled cheaply, and with AddressSanitizer not optimised at all: tests
# compile longer than they run. A program that runs longer than it compiles has the property
# NEAR_TEST_OPTIMISED.
set(near_test_is_plain TRUE)
if(NEAR_CHECK OR NEAR_SANITIZE OR CMAKE_CROSSCOMPILING)
  set(near_test_is_plain FALSE)
endif()
set(near_test_cheap -O1)
if(NEAR_SANITIZE MATCHES "address")
  set(near_test_cheap -O0)
endif()
target_compile_options(near_test_flags INTERFACE
  $<IF:$<BOOL:$<TARGET_PROPERTY:NEAR_TEST_OPTIMISED>>,-O1,${near_test_cheap}> -g1)

add_library(near_test_main OBJECT support/main.cc support/proc_self.cc)
target_link_libraries(near_test_main PUBLIC near_test_flags GTest::gtest)
target_precompile_headers(near_test_main PRIVATE
  <gtest/gtest.h> <algorithm> <atomic> <map> <string> <thread> <vector>)

# Which typed tests there are. A sanitizer owns malloc, and an emulated program cannot preload for
# its children: those builds test the near_* names alone. The check build tests the standard names
# alone: the same objects are behind both.
set(near_test_has_standard FALSE)
if(TARGET nearmalloc AND NOT CMAKE_CROSSCOMPILING)
  set(near_test_has_standard TRUE)
endif()
set(near_test_has_twins TRUE)
if(NEAR_CHECK AND near_test_has_standard)
  set(near_test_has_twins FALSE)
endif()

# How tests reach the allocator under test: it is preloaded, and proves that it is nearmalloc.
set(near_test_environment
  NEAR_TEST_EXPECT=near NEAR_TEST_BUILD=$<IF:$<BOOL:${NEAR_CHECK}>,check,release>)
if(CMAKE_CROSSCOMPILING_EMULATOR)
  list(JOIN CMAKE_CROSSCOMPILING_EMULATOR " " emulator)
  list(APPEND near_test_environment "NEAR_TEST_EMULATOR=${emulator}")
endif()
set(near_test_preload LD_PRELOAD=$<TARGET_FILE:nearmalloc>)

# How much of a long test runs where everything is slower.
set(near_test_scale 1)
if(CMAKE_CROSSCOMPILING)
  set(near_test_scale 0.03)
elseif(NEAR_SANITIZE)
  set(near_test_scale 0.1)
elseif(NEAR_CHECK)
  set(near_test_scale 0.2)
endif()

function(near_test_core name)
  cmake_parse_arguments(arg SERIAL "LABEL;TIMEOUT;SCALE;CHECKED" "COMMAND;ENVIRONMENT" ${ARGN})
  if(arg_CHECKED AND TARGET nearmalloc_checked)
    near_test_checked(${name} ${arg_CHECKED} ${ARGN})
  endif()
  set(scale ${near_test_scale})
  if(DEFINED arg_SCALE)
    set(scale ${arg_SCALE})
  endif()
  if(NOT DEFINED ENV{NEAR_TEST_SCALE})
    list(APPEND arg_ENVIRONMENT NEAR_TEST_SCALE=${scale})
  endif()
  if(NOT DEFINED arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set(label core)
  if(DEFINED arg_LABEL)
    set(label ${arg_LABEL})
  endif()
  # The release build tests real programs and resident memory; with checks they are soak tests.
  if(NEAR_CHECK AND CMAKE_CURRENT_SOURCE_DIR MATCHES "/(process|scenario)$")
    set(label soak)
  endif()
  set_tests_properties(${name} PROPERTIES
    LABELS ${label} TIMEOUT ${arg_TIMEOUT} RUN_SERIAL $<BOOL:${arg_SERIAL}>
    ENVIRONMENT "${near_test_environment};${arg_ENVIRONMENT}")
  list(GET arg_COMMAND 0 program)
  near_tier(${name} ${program})
endfunction()

# The same test on the library with checks, with a label of its own.
function(near_test_checked name label)
  cmake_parse_arguments(arg SERIAL "LABEL;TIMEOUT;SCALE;CHECKED" "COMMAND;ENVIRONMENT" ${ARGN})
  list(TRANSFORM arg_ENVIRONMENT REPLACE "^LD_PRELOAD=.*"
    "LD_PRELOAD=$<TARGET_FILE:nearmalloc_checked>")
  set(serial)
  if(arg_SERIAL)
    set(serial SERIAL)
  endif()
  if(NOT DEFINED arg_TIMEOUT)
    set(arg_TIMEOUT 900)
  endif()
  near_test_core(${name}.checked ${serial} LABEL ${label} SCALE 0.2 TIMEOUT ${arg_TIMEOUT}
    COMMAND ${arg_COMMAND}
    ENVIRONMENT ${arg_ENVIRONMENT} NEAR_TEST_BUILD=check
      NEAR_TEST_LIBRARIES=$<TARGET_FILE_DIR:nearmalloc_checked>)
endfunction()

# An object library of typed tests for the providers that `header` lists.
function(near_typed_tests name header)
  near_test_objects(${name} ${ARGN})
  target_compile_definitions(${name} PRIVATE NEAR_TEST_API_HEADER="support/${header}")
endfunction()

# An object library of tests.
function(near_test_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PUBLIC near_test_flags GTest::gtest)
  near_test_precompiled(${name})
  near_unity(${name})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON)  # NEAR_UNITY is for the library
endfunction()

# Object libraries of tests share one precompiled header.
function(near_test_precompiled name)
  target_precompile_headers(${name} REUSE_FROM near_test_main)
endfunction()

# A GoogleTest executable made of object libraries, linked to `libraries`.
function(near_test_executable name)
  cmake_parse_arguments(arg "" "" "OBJECTS;LIBRARIES" ${ARGN})
  set(objects ${arg_OBJECTS})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  add_executable(${name} ${objects} $<TARGET_OBJECTS:near_test_main>)
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} near_test_flags GTest::gtest)
endfunction()

# The near_* names: the library, or its objects where a sanitizer is in the way.
if(TARGET nearmalloc_api)
  set(near_test_twins nearmalloc_api)
else()
  set(near_test_twins near_core near_api)
endif()

# A Python test of this folder; it finds what was built through its environment. It ends with 77
# where the program that it is about is not installed.
set(near_test_programs ${PROJECT_BINARY_DIR}/tests/programs)
set(near_test_python_environment
  NEAR_TEST_LIBRARIES=$<TARGET_FILE_DIR:nearmalloc>
  NEAR_TEST_PROGRAMS=${near_test_programs}
  NEAR_TEST_INCLUDE=${PROJECT_SOURCE_DIR}/include
  PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support)
function(near_test_python name script)
  near_test_core(${name} ${ARGN}
    COMMAND ${NEAR_PYTHON} -B ${script}
    ENVIRONMENT ${near_test_python_environment})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  if(TEST ${name}.checked)
    set_tests_properties(${name}.checked PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# A C or C++ program, without an allocator, that Python tests run.
function(near_test_program name)
  add_executable(test_program_${name} ${ARGN})
  set_target_properties(test_program_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${near_test_programs})
  target_link_libraries(test_program_${name} PRIVATE near_test_flags)
endfunction()
