# The plugin that counts accesses (vm/plugin): tests of its parts alone, and in a guest against
# known counts.

find_package(nlohmann_json REQUIRED)
add_library(numa_plugin_tests OBJECT plugin_test.cc plugin_cache_test.cc)
target_link_libraries(numa_plugin_tests PUBLIC
  near_test_flags GTest::gtest nlohmann_json::nlohmann_json)
near_test_precompiled(numa_plugin_tests)
near_test_executable(numa_plugin OBJECTS numa_plugin_tests near_count)
near_test_core(numa_plugin LABEL numa COMMAND numa_plugin ENVIRONMENT NEAR_TEST_EXPECT=)

near_test_machine(numa_known_counts SCRIPT known_counts.py CASE 4n)
foreach(topology 8n ring)
  near_test_machine(numa_known_counts_${topology}
    LABEL numa-matrix TIMEOUT 150 SCRIPT known_counts.py CASE ${topology})
endforeach()
near_test_machine(numa_local_path CASE 2n local_path foreign_free)
