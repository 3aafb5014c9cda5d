# The default tier: the tests that `./near test` runs without a label. tests/default_tier.txt has a
# regular expression for their names on each line.
#
# default_tests: the target that builds what these tests need.
# near_tier(<test> [<target>...]): gives the test the label `default` if it is of the tier; then the
# target builds these targets, too.
# near_tier_complete(): an error if a line of the file names no test.

set(near_tier_file ${PROJECT_SOURCE_DIR}/tests/default_tier.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${near_tier_file})
file(STRINGS ${near_tier_file} near_tier_patterns REGEX "^[^#]")
add_custom_target(default_tests)

function(near_tier test)
  foreach(pattern IN LISTS near_tier_patterns)
    if(NOT test MATCHES "^(${pattern})$")
      continue()
    endif()
    set_property(GLOBAL APPEND PROPERTY near_tier_used "${pattern}")
    set_property(TEST ${test} APPEND PROPERTY LABELS default)
    foreach(target IN LISTS ARGN)
      if(TARGET "${target}")
        add_dependencies(default_tests ${target})
      endif()
    endforeach()
    return()
  endforeach()
endfunction()

function(near_tier_complete)
  get_property(used GLOBAL PROPERTY near_tier_used)
  foreach(pattern IN LISTS near_tier_patterns)
    if(NOT pattern IN_LIST used)
      message(FATAL_ERROR "tests/default_tier.txt: no test has the name '${pattern}'")
    endif()
  endforeach()
endfunction()
