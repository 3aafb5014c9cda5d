# nalloc0: the claims of __nalloc's description, each in a process of its own.

near_test_design(nalloc0)
near_test_design_variants(nalloc0 "clean_mib=1" "batch=1,populate=on,align=division")

near_test_design_objects(design_nalloc0_tests nalloc0_test.cc nalloc_switches_test.cc)
target_compile_definitions(design_nalloc0_tests PRIVATE
  NEAR_DESIGN_VARIANT=kNalloc0 NEAR_TEST_SLABS=0)
near_test_executable(design_nalloc0
  OBJECTS design_nalloc0_tests near_design_nalloc0 near_design_twins LIBRARIES near_design_fake_os)

foreach(test Nalloc0.NeighboursAreJoinedUntilTheArenaIsWhole
    Nalloc0.ArenasAreSoundAfterRandomRuns Nalloc0.HolesServeRequestsOfTheirSizeAgain
    Nalloc0.WhatIsFreedAfterTheOwnersExitIsTheNextThreads Nalloc0DeathTest.ASecondFreeIsSaid)
  string(MAKE_C_IDENTIFIER "design_${test}" name)
  near_test_core(${name} LABEL designs COMMAND design_nalloc0 --gtest_filter=${test}
    ENVIRONMENT NEAR_TEST_EXPECT=nalloc0)
endforeach()
foreach(options "" "batch=1,populate=on" "batch=64" "align=division")
  foreach(test AHeapTakesABatchOfPagesAtATime BatchesAreResidentAtOnceIfTheSwitchSaysSo
      ThePageOfABlockIsFoundByBitsOrByDivision)
    string(MAKE_C_IDENTIFIER "design_nalloc0_${test}_${options}" name)
    near_test_core(${name} LABEL designs COMMAND design_nalloc0
      --gtest_filter=NallocSwitches.${test}
      ENVIRONMENT NEAR_TEST_EXPECT=nalloc0 "NEARMALLOC_DESIGN_OPTIONS=${options}")
  endforeach()
endforeach()
