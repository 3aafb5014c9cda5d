# All designs; near_design is in cmake/designs.cmake.

near_design(scalloc)

near_design(a2alloc DEFINITIONS NEAR_DESIGN_CONFIG=kA2alloc)
near_design(kheap FOLDER a2alloc DEFINITIONS NEAR_DESIGN_CONFIG=kKheap)
foreach(number 0 1 2 3 4)
  near_design(super${number} FOLDER super DEFINITIONS NEAR_DESIGN_CONFIG=kSuper${number})
endforeach()
near_design(supersocket FOLDER super DEFINITIONS NEAR_DESIGN_CONFIG=kSuperSocket)
near_design(nalloc DEFINITIONS NEAR_DESIGN_CONFIG=kNalloc)
near_design(nalloc0 FOLDER nalloc DEFINITIONS NEAR_DESIGN_CONFIG=kNalloc0)

# NUMAlloc; its binding is also a separate library. Objects for tests do not interpose
# pthread_create.
near_design(numalloc)
target_sources(near_design_numalloc PRIVATE
  ${designs_dir}/numalloc/binding/binding.cc ${designs_dir}/numalloc/binding/rules.cc)
if(NOT NEAR_SANITIZE)
  near_object_library(near_binding_hook ${designs_dir}/numalloc/binding/pthread_create.cc)
  near_object_library(near_binding
    ${designs_dir}/numalloc/binding/binding.cc ${designs_dir}/numalloc/binding/rules.cc
    ${designs_dir}/numalloc/binding/nearbind.cc)
  foreach(binding_target near_binding_hook near_binding)
    target_include_directories(${binding_target} PRIVATE ${PROJECT_SOURCE_DIR})
  endforeach()
  target_sources(near_design_numalloc_library PRIVATE $<TARGET_OBJECTS:near_binding_hook>)
  near_shared_library(nearbind nearbind ${designs_dir}/numalloc/binding/nearbind.map
    near_binding near_binding_hook near_design_shared)
  set_target_properties(nearbind PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/designs)
  add_dependencies(near_design_numalloc_library nearbind)
endif()
