# The designs there are; near_design is in cmake/designs.cmake.

near_design(a2alloc DEFINITIONS NEAR_DESIGN_CONFIG=kA2alloc)
near_design(kheap FOLDER a2alloc DEFINITIONS NEAR_DESIGN_CONFIG=kKheap)
near_design(nalloc DEFINITIONS NEAR_DESIGN_CONFIG=kNalloc)
near_design(nalloc0 FOLDER nalloc DEFINITIONS NEAR_DESIGN_CONFIG=kNalloc0)
