# SuperMalloc's family: the same claims of each, on eight processors of two sockets.

set(super_variants super0=kSuper0 super1=kSuper1 super2=kSuper2 super3=kSuper3 super4=kSuper4
  supersocket=kSuperSocket)
foreach(pair IN LISTS super_variants)
  string(REPLACE "=" ";" pair "${pair}")
  list(GET pair 0 name)
  list(GET pair 1 variant)
  # As published, super1 and super4 fill 96 MiB for each bin that a program uses.
  set(affordable)
  if(name MATCHES "^super[14]$")
    set(affordable constants=text,)
  endif()
  if(name MATCHES "^super[124]$")
    near_test_design(${name} NARROW OPTIONS ${affordable}processors=0)
  else()
    near_test_design(${name})
  endif()
  near_test_design_objects(design_${name}_tests
    super_test.cc ${PROJECT_SOURCE_DIR}/tests/support/fake_cpu.cc)
  target_compile_definitions(design_${name}_tests PRIVATE NEAR_DESIGN_VARIANT=${variant})
  near_test_executable(design_${name}
    OBJECTS design_${name}_tests near_design_${name} near_design_twins
    LIBRARIES near_design_fake_os)
  set(filter "-SuperPublished.*:SuperZeroed.*")
  if(NEAR_SANITIZE)
    # A sanitizer's runtime does not survive threads after fork.
    set(filter "-SuperPublished.*:SuperZeroed.*:SuperFork.*")
  endif()
  near_test_core(design_${name} LABEL designs COMMAND design_${name} --gtest_filter=${filter}
    ENVIRONMENT NEAR_TEST_EXPECT=${name} NEARMALLOC_DESIGN_OPTIONS=constants=text,processors=8
      "NEARMALLOC_TOPOLOGY=nodes=2 cpus=0-3,4-7")
  near_test_core(design_${name}_published LABEL designs
    COMMAND design_${name} --gtest_filter=SuperPublished.*:SuperHuge.*:SuperLarge.*:SuperWrong.*
    ENVIRONMENT NEAR_TEST_EXPECT=${name} NEARMALLOC_DESIGN_OPTIONS=processors=2)
  if(NEAR_SANITIZE)
    continue()
  endif()
  near_test_core(design_${name}_zeroed LABEL designs  # a sanitizer's own memory is resident too
    COMMAND design_${name} --gtest_filter=SuperZeroed.*
    ENVIRONMENT NEAR_TEST_EXPECT=${name} NEARMALLOC_DESIGN_OPTIONS=processors=2)
  # Where the processor has no transactions, these are the same once more.
  near_test_core(design_${name}_tsx LABEL designs
    COMMAND design_${name} --gtest_filter=${filter}
    ENVIRONMENT NEAR_TEST_EXPECT=${name}
      NEARMALLOC_DESIGN_OPTIONS=constants=text,processors=8,sync=tsx
      "NEARMALLOC_TOPOLOGY=nodes=2 cpus=0-3,4-7")
  near_test_core(design_stress_${name}_tsx LABEL designs SCALE 0.05 COMMAND stress_standard
    ENVIRONMENT LD_PRELOAD=$<TARGET_FILE:near_design_${name}_library> NEAR_TEST_EXPECT=${name}
      NEARMALLOC_DESIGN_OPTIONS=${affordable}sync=tsx)
endforeach()
near_test_design_variants(super0
  "threadcache=off" "fill=half,drain=on" "fill=doubling" "constants=text")
near_test_design_variants(super3 "constants=text")
# As published, a process of these takes up to 5 GiB in these tests: one runs at a time.
if(NOT NEAR_SANITIZE)
  foreach(name super1 super4)
    near_test_core(design_stress_${name}.constants=artifact SERIAL LABEL designs SCALE 0.02
      COMMAND stress_standard
      ENVIRONMENT LD_PRELOAD=$<TARGET_FILE:near_design_${name}_library> NEAR_TEST_EXPECT=${name}
        NEARMALLOC_DESIGN_OPTIONS=constants=artifact)
  endforeach()
endif()
