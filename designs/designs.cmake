# All designs; near_design is in cmake/designs.cmake.

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${designs_dir}/list.txt)
file(STRINGS ${designs_dir}/list.txt design_lines REGEX "^[a-z]")
foreach(line IN LISTS design_lines)
  separate_arguments(words UNIX_COMMAND "${line}")
  list(POP_FRONT words name folder variant)
  set(definitions)
  if(variant)
    set(definitions DEFINITIONS NEAR_DESIGN_VARIANT=${variant})
  endif()
  near_design(${name} FOLDER ${folder} ${definitions})
endforeach()

# NUMAlloc's binding is also a separate library. Objects for tests do not interpose pthread_create.
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
