# What designs share, by itself.

add_library(design_shared_tests OBJECT shared_test.cc tagged_stack_test.cc)
target_include_directories(design_shared_tests PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(design_shared_tests PUBLIC near_test_flags GTest::gtest)
near_test_precompiled(design_shared_tests)
near_test_executable(design_shared OBJECTS design_shared_tests LIBRARIES near_design_fake_os)
near_test_core(design_shared LABEL designs COMMAND design_shared ENVIRONMENT NEAR_TEST_EXPECT=)
