# GTest::gtest and GTest::gtest_main: the system's libraries. A cross-build compiles them from the
# system's sources (Debian: googletest), because only sources exist for every architecture.

if(NOT TARGET GTest::gtest AND NOT CMAKE_CROSSCOMPILING)
  find_package(GTest CONFIG QUIET)
endif()
if(NOT TARGET GTest::gtest AND EXISTS /usr/src/googletest/CMakeLists.txt)
  # The sources require an older CMake; warnings about code of others are off.
  set(INSTALL_GTEST OFF)
  set(warnings_were_errors ${CMAKE_COMPILE_WARNING_AS_ERROR})
  set(CMAKE_COMPILE_WARNING_AS_ERROR OFF)
  set(CMAKE_WARN_DEPRECATED OFF CACHE BOOL "" FORCE)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ${warnings_were_errors})
endif()
include(FindPackageHandleStandardArgs)
if(TARGET GTest::gtest)
  set(GTEST_TARGET GTest::gtest)
endif()
find_package_handle_standard_args(GTest REQUIRED_VARS GTEST_TARGET)
include(GoogleTest)
