# scalloc: the paper's claims, and what its switches change.

near_test_design(scalloc WIDE)
near_test_design_variants(scalloc "lab=clab" "reclaim=allocation" "lab=clab,reclaim=allocation"
  "frontend=super" "frontend=super,lab=clab")
if(NOT NEAR_SANITIZE)
  near_test_core(design_conformance_scalloc.frontend=super LABEL designs SCALE 0.02
    COMMAND conformance_standard
    ENVIRONMENT LD_PRELOAD=$<TARGET_FILE:near_design_scalloc_library> NEAR_TEST_EXPECT=scalloc
      NEARMALLOC_DESIGN_OPTIONS=frontend=super)
  near_test_core(design_process_scalloc_life.frontend=super LABEL designs
    COMMAND ${NEAR_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/process/life.py ${process_life}
    ENVIRONMENT ${near_test_python_environment} NEAR_TEST_DESIGN=scalloc
      NEAR_TEST_DESIGN_OPTIONS=frontend=super)
endif()

near_test_design_objects(design_scalloc_tests
  scalloc_test.cc scalloc_switches_test.cc scalloc_guard_test.cc)
near_test_executable(design_scalloc OBJECTS design_scalloc_tests near_design_scalloc
  LIBRARIES near_design_fake_os)
# On the real system, whose pages say more.
near_test_design_objects(design_scalloc_os_tests scalloc_switches_test.cc)
near_test_executable(design_scalloc_os OBJECTS design_scalloc_os_tests near_design_scalloc
  LIBRARIES near_design_shared)

# Room for some thousand spans is enough, and the tests' system writes down the state of each page.
set(scalloc_environment NEAR_TEST_EXPECT=scalloc NEARMALLOC_INVALID=report
  NEAR_FAKE_OS=address_space=68719476736)
set(filter "Scalloc.*")
if(NEAR_SANITIZE)
  set(filter "Scalloc.*-*Fork*")  # a sanitizer's runtime does not survive threads after fork
endif()
near_test_core(design_scalloc LABEL designs COMMAND design_scalloc --gtest_filter=${filter}
  ENVIRONMENT ${scalloc_environment})
near_test_core(design_scalloc.pages_65536 LABEL designs
  COMMAND design_scalloc --gtest_filter=${filter}
  ENVIRONMENT NEAR_TEST_EXPECT=scalloc NEARMALLOC_INVALID=report
    NEAR_FAKE_OS=address_space=68719476736,page=65536)
foreach(options
    "madvise=off" "madvise=on" "madvise=eager" "span_pool=per_core" "span_pool=single"
    "reclaim=free" "reclaim=allocation" "reuse_threshold=0" "reuse_threshold=50"
    "reuse_threshold=80" "reuse_threshold=100" "lab=tlab" "lab=clab" "guard=mprotect")
  near_test_core(design_scalloc.${options} LABEL designs
    COMMAND design_scalloc --gtest_filter=ScallocSwitches.*-*HugePages*
    ENVIRONMENT ${scalloc_environment} NEARMALLOC_DESIGN_OPTIONS=${options})
endforeach()
foreach(options "" "frontend=super" "frontend=super,lab=clab")
  near_test_core(design_scalloc_front.${options} LABEL designs
    COMMAND design_scalloc --gtest_filter=ScallocFront.*
    ENVIRONMENT ${scalloc_environment} "NEARMALLOC_DESIGN_OPTIONS=${options}")
endforeach()
# Some thousand spans again, of up to 128 MiB.
function(near_test_scalloc_guard options spans)
  near_test_core(design_scalloc_guard.${options} LABEL designs
    COMMAND design_scalloc --gtest_filter=${spans}
    ENVIRONMENT NEAR_TEST_EXPECT=scalloc NEARMALLOC_INVALID=report
      NEAR_FAKE_OS=address_space=4398046511104,${ARGN} NEARMALLOC_DESIGN_OPTIONS=${options})
endfunction()
set(filter "ScallocGuard.*")
if(NEAR_SANITIZE)
  set(filter "ScallocGuard.*-*Kernel*")
endif()
foreach(options "guard=markers" "guard=mprotect" "guard=off" "virtual_span=16" "virtual_span=128"
    "guard=mprotect,virtual_span=4")
  near_test_scalloc_guard("${options}" "${filter}" page=4096)
endforeach()
near_test_scalloc_guard("virtual_span=2" "${filter}" page=65536)
foreach(options "thp=on" "thp=off")
  near_test_core(design_scalloc.${options} LABEL designs
    COMMAND design_scalloc_os --gtest_filter=ScallocSwitches.*HugePages*
    ENVIRONMENT NEAR_TEST_EXPECT=scalloc NEARMALLOC_DESIGN_OPTIONS=${options})
endforeach()
