near_test_design(a2alloc)
