# Hoard: the paper's bounds, under its switches; each case runs in a process of its own.

near_test_design(hoard)
near_test_design_variants(hoard "superblock=64" "slack=0,empty=1,heaps=1")

near_test_design_objects(design_hoard_tests hoard_test.cc)
near_test_executable(design_hoard
  OBJECTS design_hoard_tests near_design_hoard near_design_twins LIBRARIES near_design_fake_os)

foreach(options "" "superblock=4" "superblock=64,base=150" "slack=0,empty=1" "empty=7,heaps=1")
  near_test_core(design_hoard.${options} LABEL designs
    COMMAND design_hoard --gtest_filter=Hoard.*
    ENVIRONMENT NEAR_TEST_EXPECT=hoard "NEARMALLOC_DESIGN_OPTIONS=${options}")
endforeach()
foreach(test MemoryStaysWithinItsBound EmptySuperblocksGoBackWhereTheyCan ARefusalLosesNothing)
  foreach(page 4096 65536)
    near_test_core(design_hoard_${test}.pages_${page} LABEL designs
      COMMAND design_hoard --gtest_filter=HoardMemory.${test}
      ENVIRONMENT NEAR_TEST_EXPECT=hoard NEAR_FAKE_OS=page=${page})
  endforeach()
endforeach()
near_test_core(design_hoard_invalid LABEL designs
  COMMAND design_hoard --gtest_filter=HoardInvalidDeathTest.*
  ENVIRONMENT NEAR_TEST_EXPECT=hoard)
