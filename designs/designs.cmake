# The designs there are; near_design is in cmake/designs.cmake.

near_design(a2alloc DEFINITIONS NEAR_DESIGN_CONFIG=kA2alloc)
near_design(kheap FOLDER a2alloc DEFINITIONS NEAR_DESIGN_CONFIG=kKheap)
foreach(number 0 1 2 3 4)
  near_design(super${number} FOLDER super DEFINITIONS NEAR_DESIGN_CONFIG=kSuper${number})
endforeach()
near_design(supersocket FOLDER super DEFINITIONS NEAR_DESIGN_CONFIG=kSuperSocket)
