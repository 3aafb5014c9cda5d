# What designs share, by itself.

near_test_design_objects(design_shared_tests shared_test.cc tagged_stack_test.cc
  list_front_test.cc)
near_test_executable(design_shared OBJECTS design_shared_tests LIBRARIES near_design_fake_os)
near_test_core(design_shared LABEL designs COMMAND design_shared ENVIRONMENT NEAR_TEST_EXPECT=)
