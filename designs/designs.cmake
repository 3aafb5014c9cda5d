# The designs there are; near_design is in cmake/designs.cmake.
near_design(scalloc)
