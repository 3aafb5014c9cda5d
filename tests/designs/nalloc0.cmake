near_test_design(nalloc0)
