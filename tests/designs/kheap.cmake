# Each free looks through all pages: slow under a sanitizer.
near_test_design(kheap SANITIZED_SCALE 0.003)
