# nalloc: the claims of its page, each in a process of its own, under its switches.

near_test_design(nalloc)
near_test_design_variants(nalloc
  "order=stack,wayward=apart" "steal=off,keep=0" "clean_mib=1"
  "batch=1,populate=on,classes=table,align=division")

near_test_design_objects(design_nalloc_tests nalloc_test.cc nalloc_switches_test.cc)
target_compile_definitions(design_nalloc_tests PRIVATE
  NEAR_DESIGN_VARIANT=kNalloc NEAR_TEST_SLABS=1)
near_test_executable(design_nalloc
  OBJECTS design_nalloc_tests near_design_nalloc near_design_twins LIBRARIES near_design_fake_os)

function(near_test_nalloc filter options)
  string(MAKE_C_IDENTIFIER "design_nalloc_${filter}_${options}" test)
  near_test_core(${test} LABEL designs COMMAND design_nalloc --gtest_filter=${filter}
    ENVIRONMENT NEAR_TEST_EXPECT=nalloc NEARMALLOC_DESIGN_OPTIONS=${options} ${ARGN})
endfunction()

foreach(options "" order=stack wayward=apart steal=off keep=0)
  foreach(suite Steal.WhoBringsTheLastBlockHasTheSlab Steal.AThreadKeepsNoMoreThanItMay
      Slab.PrivateWaywardAndLiveMakeTheCapacity Slab.TheOrderIsThatOfTheSwitch
      Slab.TheWaywardStackHasALineOfItsOwnIfTheSwitchSaysSo Exit.TheNextThreadHasTheSlabs)
    near_test_nalloc(Nalloc${suite} "${options}")
  endforeach()
endforeach()
foreach(suite Wayward.PopallIsOneExchangeHoweverManyBlocks
    Wayward.AnExhaustedSlabGetsItsWaywardBlocksBack
    Wayward.AFreeOfTheHostRegainsASlabThatWasGivenUp
    Exit.WholeSlabsBecomeCleanPagesForAnyClass Exit.AThreadThatFreesAtItsEndLeavesNoHeap
    Locks.SmallBlocksNeedNone
    Locks.NoTrimHasParkedHeapsInHandDuringAFork
    Pages.MemoryGoesBackAndComesAgain Pages.BeyondTheLimitCleanPagesKeepNoMemory
    Pages.ARefusalLosesNothing InvalidDeathTest.ASecondFreeIsSaid)
  near_test_nalloc(Nalloc${suite} "")
endforeach()
near_test_nalloc(NallocPages.BeyondTheLimitCleanPagesKeepNoMemory clean_mib=1)
foreach(options "" "batch=1,populate=on" "batch=64" "classes=table" "align=division")
  foreach(test AHeapTakesABatchOfPagesAtATime BatchesAreResidentAtOnceIfTheSwitchSaysSo
      ThePageOfABlockIsFoundByBitsOrByDivision TheClassOfASizeIsComputedOrReadFromATable)
    near_test_nalloc(NallocSwitches.${test} "${options}")
  endforeach()
endforeach()
if(NOT NEAR_SANITIZE)  # a sanitizer's own memory is resident too
  near_test_nalloc(NallocRuns.ZeroedBlocksOfFreshMemoryCostNone "")
endif()
foreach(suite Pages.* Slab.PrivateWaywardAndLiveMakeTheCapacity)
  string(MAKE_C_IDENTIFIER "design_nalloc_large_pages_${suite}" test)
  near_test_core(${test} LABEL designs COMMAND design_nalloc --gtest_filter=Nalloc${suite}
    ENVIRONMENT NEAR_TEST_EXPECT=nalloc NEAR_FAKE_OS=page=65536)
endforeach()

if(near_test_is_plain)
  set(objects)
  foreach(target near_design_nalloc near_design_shared)
    list(APPEND objects "$<JOIN:$<TARGET_OBJECTS:${target}>,$<COMMA>>")
  endforeach()
  list(JOIN objects "," objects)
  near_test_core(design_nalloc_small_path LABEL designs
    COMMAND ${NEAR_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/nalloc_small_path.py
    ENVIRONMENT NEAR_TEST_SOURCES=${PROJECT_SOURCE_DIR}/designs/nalloc
      "NEAR_TEST_OBJECTS=${objects}")
endif()
