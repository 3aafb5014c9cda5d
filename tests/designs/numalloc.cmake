# NUMAlloc: its parts alone; the whole on fake topologies; its switches; the binding.

near_test_design_objects(design_numalloc_tests
  numalloc_test.cc numalloc_node_test.cc numalloc_binding_test.cc
  ${PROJECT_SOURCE_DIR}/tests/support/fake_cpu.cc)
near_test_executable(design_numalloc
  OBJECTS design_numalloc_tests near_design_numalloc near_design_twins
  LIBRARIES near_design_fake_os)

# Another allocator than nearmalloc is under test.
set(of_design LABEL designs ENVIRONMENT NEAR_TEST_EXPECT=)
near_test_core(design_numalloc_parts ${of_design}
  COMMAND design_numalloc --gtest_filter=-NumallocNodes.*:NumallocSwitch.*:Binding*)
foreach(page 16384 65536)
  near_test_core(design_numalloc_pages_${page} ${of_design} NEAR_FAKE_OS=page=${page}
    COMMAND design_numalloc --gtest_filter=Numalloc.*)
endforeach()
# Processor n belongs to node n.
foreach(nodes 2 4 8 64)
  set(processors 0)
  math(EXPR last "${nodes} - 1")
  foreach(processor RANGE 1 ${last})
    string(APPEND processors ",${processor}")
  endforeach()
  near_test_core(design_numalloc_nodes_${nodes} ${of_design}
    "NEARMALLOC_TOPOLOGY=nodes=${nodes} cpus=${processors}"
    COMMAND design_numalloc --gtest_filter=NumallocNodes.*)
endforeach()
foreach(setting
    origin_aware=on origin_aware=off thp=on thp=off sharing=incremental sharing=per_thread
    batch=page batch=bag)
  near_test_core(design_numalloc_${setting} ${of_design}
    "NEARMALLOC_TOPOLOGY=nodes=2 cpus=0,1" NEARMALLOC_DESIGN_OPTIONS=${setting}
    COMMAND design_numalloc --gtest_filter=NumallocSwitch.*)
endforeach()
foreach(policy interleave saturate file off)
  set(options NEARMALLOC_DESIGN_OPTIONS=binding=${policy})
  if(policy STREQUAL "interleave")
    set(options)
  elseif(policy STREQUAL "file")
    string(APPEND options ":${CMAKE_CURRENT_SOURCE_DIR}/numalloc_rules.txt")
  endif()
  near_test_core(design_numalloc_binding_${policy} ${of_design}
    "NEARMALLOC_TOPOLOGY=nodes=4 cpus=0-1,2-3,4-5,6-7" ${options}
    COMMAND design_numalloc --gtest_filter=Binding.*)
endforeach()

near_test_core(design_numalloc_binding_memory_nodes ${of_design}
  "NEARMALLOC_TOPOLOGY=nodes=3 cpus=0,,1"
  COMMAND design_numalloc --gtest_filter=BindingToMemoryNodes.*)

# The paper gives nothing back, so neither does malloc_trim.
near_test_design(numalloc WIDE WITHOUT *TrimGivesFreeMemoryBack)

# The libraries, on programs.
if(near_test_has_standard)
  near_test_core(design_stress_numalloc_origin_aware=off LABEL designs SCALE 0.03
    COMMAND stress_standard
    ENVIRONMENT
      LD_PRELOAD=$<TARGET_FILE:near_design_numalloc_library> NEAR_TEST_EXPECT=numalloc
      "NEARMALLOC_TOPOLOGY=nodes=2 cpus=0,1" NEARMALLOC_DESIGN_OPTIONS=origin_aware=off)
  near_test_program(bound_threads ${CMAKE_CURRENT_SOURCE_DIR}/bound_threads.c)
  near_test_core(design_numalloc_programs LABEL designs
    COMMAND ${NEAR_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/numalloc_programs.py
    ENVIRONMENT
      NEAR_TEST_LIBRARIES=$<TARGET_FILE_DIR:nearmalloc>
      NEAR_TEST_PROGRAMS=${near_test_programs}
      NEAR_TEST_NUMALLOC=$<TARGET_FILE:near_design_numalloc_library>
      NEAR_TEST_NEARBIND=$<TARGET_FILE:nearbind>
      PYTHONPATH=${PROJECT_SOURCE_DIR}/tests/support)
endif()
