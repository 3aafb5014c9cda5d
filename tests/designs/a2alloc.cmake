# a2alloc: the claims of its report under each of its switches; kheap: the page count it started
# from.

near_test_design(a2alloc)
foreach(options "emptiness=25" "pageref=head")
  if(NEAR_SANITIZE)
    near_test_core(design_stress_a2alloc.${options} LABEL designs SCALE 0.05 TIMEOUT 600
      COMMAND design_stress_a2alloc --gtest_filter=-Fork*
      ENVIRONMENT NEAR_TEST_EXPECT=a2alloc NEARMALLOC_DESIGN_OPTIONS=${options})
  else()
    near_test_core(design_stress_a2alloc.${options} LABEL designs SCALE 0.05
      COMMAND stress_standard
      ENVIRONMENT LD_PRELOAD=$<TARGET_FILE:near_design_a2alloc_library> NEAR_TEST_EXPECT=a2alloc
        NEARMALLOC_DESIGN_OPTIONS=${options})
  endif()
endforeach()

foreach(name a2alloc kheap)
  near_test_design_objects(design_${name}_tests
    a2alloc_test.cc ${PROJECT_SOURCE_DIR}/tests/support/fake_cpu.cc)
  string(SUBSTRING ${name} 0 1 first)
  string(TOUPPER ${first} first)
  string(SUBSTRING ${name} 1 -1 rest)
  target_compile_definitions(design_${name}_tests PRIVATE NEAR_DESIGN_VARIANT=k${first}${rest})
  near_test_executable(design_${name}
    OBJECTS design_${name}_tests near_design_${name} near_design_twins
    LIBRARIES near_design_fake_os)
endforeach()

function(near_test_a2alloc name options filter)
  string(MAKE_C_IDENTIFIER "design_a2alloc_${name}" test)
  near_test_core(${test} LABEL designs COMMAND design_a2alloc --gtest_filter=${filter}
    ENVIRONMENT NEAR_TEST_EXPECT=a2alloc NEARMALLOC_DESIGN_OPTIONS=${options} ${ARGN})
endfunction()

near_test_a2alloc(pages "" A2allocPages.*)
foreach(options "" metadata=block pageref=head free=walk emptiness=25)
  near_test_a2alloc(parts_${options} "${options}" A2alloc.*)
  near_test_a2alloc(memory_${options} "${options}" A2allocMemory.ARefusalLosesNothing)
  near_test_a2alloc(trim_${options} "${options}" A2allocMemory.EmptyPagesGoBackWhereTheyCan)
  near_test_a2alloc(invalid_${options} "${options}" A2allocInvalidDeathTest.*)
  near_test_a2alloc(walk_${options} "${options}" A2allocWalk.*)
  near_test_a2alloc(emptiness_${options} "${options}" A2allocEmptiness.*)
  if(NOT options MATCHES "emptiness")
    near_test_a2alloc(metadata_${options} "${options}" A2allocMetadata.*)
  endif()
endforeach()
near_test_a2alloc(bytes "" A2allocBytes.*)
foreach(suite Pages Bytes Walk)
  string(TOLOWER ${suite} test)
  near_test_core(design_kheap_${test} LABEL designs
    COMMAND design_kheap --gtest_filter=A2alloc${suite}.* ENVIRONMENT NEAR_TEST_EXPECT=kheap)
endforeach()
if(NOT NEAR_SANITIZE)  # a sanitizer's own memory is resident too
  near_test_a2alloc(zeroed "" A2allocZeroed.*)
  near_test_core(design_kheap_zeroed LABEL designs
    COMMAND design_kheap --gtest_filter=A2allocZeroed.* ENVIRONMENT NEAR_TEST_EXPECT=kheap)
endif()
near_test_core(design_kheap_invalid LABEL designs
  COMMAND design_kheap --gtest_filter=A2allocInvalidDeathTest.*
  ENVIRONMENT NEAR_TEST_EXPECT=kheap)
foreach(page 16384 65536)
  foreach(options "" pageref=head)
    near_test_a2alloc(large_pages_${page}_parts_${options} "${options}" A2alloc.*
      NEAR_FAKE_OS=page=${page})
    foreach(name ARefusalLosesNothing EmptyPagesGoBackWhereTheyCan)
      near_test_a2alloc(large_pages_${page}_${name}_${options} "${options}" A2allocMemory.${name}
        NEAR_FAKE_OS=page=${page})
    endforeach()
  endforeach()
endforeach()
