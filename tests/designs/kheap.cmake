near_test_design(kheap)
