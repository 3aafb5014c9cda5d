# Simulations of the NUMA side by seeds, on one thread: TSan and other processors would add nothing.

if(NEAR_SANITIZE MATCHES "thread" OR CMAKE_CROSSCOMPILING)
  return()
endif()

add_executable(numa_simulator
  simulator.cc simulator_actions.cc simulator_blocks.cc simulator_checks.cc simulator_damage.cc
  simulator_journal.cc simulator_model.cc simulator_nodes.cc simulator_placement.cc
  simulator_play.cc simulator_world.cc
  ${PROJECT_SOURCE_DIR}/tests/support/fake_cpu.cc $<TARGET_OBJECTS:near_api>)
target_link_libraries(numa_simulator PRIVATE near_core_fake_os near_test_flags)
set_target_properties(numa_simulator PROPERTIES NEAR_TEST_OPTIMISED ON)

near_test_objects(numa_simulator_tests
  simulator_test.cc ${PROJECT_SOURCE_DIR}/tests/support/child.cc)
near_test_executable(numa_simulator_test OBJECTS numa_simulator_tests)
near_test_core(numa_simulator_test LABEL numa COMMAND numa_simulator_test
  ENVIRONMENT NEAR_TEST_EXPECT= NEAR_TEST_SIMULATOR=$<TARGET_FILE:numa_simulator>)

# Every kind of event has to be played by ten seeds or more.
set(seeds 1-20)
foreach(world 1 2 4 8 memory-only)
  near_test_core(numa_simulator_${world} LABEL numa
    COMMAND numa_simulator --world ${world} --seeds ${seeds})
  near_test_core(numa_simulator_${world}_each_step LABEL numa
    COMMAND numa_simulator --world ${world} --seed 21 --every 1)
  near_test_core(numa_simulator_${world}_soak LABEL soak TIMEOUT 7200
    COMMAND numa_simulator --world ${world} --seeds 1000-3000 --steps 4000)
endforeach()
