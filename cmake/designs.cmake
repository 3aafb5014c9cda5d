# The published designs: build/<preset>/designs/lib<name>.so. Each is one folder of designs/ and the
# shared parts.
#
# near_design(<name> [FOLDER <folder>] [DEFINITIONS <definition>...]): the sources of
# designs/<folder>/ (default: the name) with designs/shared/{front,life,summary}.cc, which see the
# design through its `this_design.h`. near_design_<name>: these objects; libraries of a family
# differ only by definitions. A sanitizer owns malloc, so sanitizer builds stop at the objects.

set(designs_dir ${PROJECT_SOURCE_DIR}/designs)
set(near_design_names "" CACHE INTERNAL "designs that have a library")

near_sources_of(design_shared_sources common/platform common/sync)
file(GLOB shared_sources CONFIGURE_DEPENDS ${designs_dir}/shared/*.cc)
set(per_design ${designs_dir}/shared/front.cc ${designs_dir}/shared/life.cc
  ${designs_dir}/shared/summary.cc)
list(REMOVE_ITEM shared_sources ${per_design})

# The test of nalloc's lock-free files looks at this object, too.
set_source_files_properties(${designs_dir}/shared/arena.cc PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)

# The code that all designs use.
function(near_design_parts target)
  near_object_library(${target}
    ${design_shared_sources} ${shared_sources} ${PROJECT_SOURCE_DIR}/malloc/front/foreign.cc)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  near_unity(${target})
endfunction()
near_design_parts(near_design_shared)

function(near_design_flags target)
  # This folder precedes malloc/, whose front/front.h is nearmalloc's.
  target_include_directories(${target} BEFORE PRIVATE ${designs_dir}/shared/shim)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

near_object_library(near_design_twins ${PROJECT_SOURCE_DIR}/malloc/shim/near_standard.cc)
near_design_flags(near_design_twins)
if(NOT NEAR_SANITIZE)
  near_object_library(near_design_shim ${shim_sources})
  near_design_flags(near_design_shim)
endif()

near_fake_os_library(near_design_fake_os near_design_shared)

# The objects of a design, compiled with these definitions.
function(near_design_objects target folder)
  file(GLOB sources CONFIGURE_DEPENDS ${designs_dir}/${folder}/*.cc)
  near_object_library(${target} ${sources} ${per_design})
  near_design_flags(${target})
  target_include_directories(${target} PRIVATE ${designs_dir}/${folder})
  target_compile_definitions(${target} PRIVATE ${ARGN})
  # A test of nalloc looks at the objects of its lock-free files.
  if(NOT folder MATCHES "^nalloc")
    near_unity(${target})
  endif()
endfunction()

function(near_design name)
  cmake_parse_arguments(arg "" "FOLDER" "DEFINITIONS" ${ARGN})
  set(folder ${name})
  if(DEFINED arg_FOLDER)
    set(folder ${arg_FOLDER})
  endif()
  near_design_objects(near_design_${name} ${folder} ${arg_DEFINITIONS})
  if(NEAR_SANITIZE)
    return()
  endif()
  near_shared_library(near_design_${name}_library ${name} ${designs_dir}/shared/design.map
    near_design_${name} near_design_shared near_design_twins near_design_shim)
  near_library_is_replaceable(near_design_${name}_library)
  # Its fork handlers are registered before any other library's.
  near_initialised_first(near_design_${name}_library)
  set_target_properties(near_design_${name}_library PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/designs)
  set(near_design_names ${near_design_names} ${name}
    CACHE INTERNAL "designs that have a library")
endfunction()

include(${designs_dir}/designs.cmake)
