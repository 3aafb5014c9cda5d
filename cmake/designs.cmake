# The published designs: build/<preset>/designs/lib<name>.so, each one folder of designs/ on the
# shared parts.
#
# near_design(<name> [FOLDER <folder>] [DEFINITIONS <definition>...]): the sources of
# designs/<folder>/ (default: the name) with designs/shared/{front,life,summary}.cc, which see the
# design through its `this_design.h`. near_design_<name>: these objects; libraries of a family
# differ by definitions alone. A sanitizer owns malloc, so sanitizer builds stop at the objects.

set(designs_dir ${PROJECT_SOURCE_DIR}/designs)
set(near_design_names "" CACHE INTERNAL "designs that have a library")

near_sources_of(design_shared_sources platform sync)
file(GLOB shared_sources CONFIGURE_DEPENDS ${designs_dir}/shared/*.cc)
set(per_design ${designs_dir}/shared/front.cc ${designs_dir}/shared/life.cc
  ${designs_dir}/shared/summary.cc)
list(REMOVE_ITEM shared_sources ${per_design})
near_object_library(near_design_shared
  ${design_shared_sources} ${shared_sources} ${PROJECT_SOURCE_DIR}/src/front/foreign.cc)
target_include_directories(near_design_shared PRIVATE ${PROJECT_SOURCE_DIR})

function(near_design_flags target)
  # Before src/, where front/front.h is that of nearmalloc.
  target_include_directories(${target} BEFORE PRIVATE ${designs_dir}/shared/shim)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()

near_object_library(near_design_twins ${PROJECT_SOURCE_DIR}/src/shim/near_standard.cc)
near_design_flags(near_design_twins)
if(NOT NEAR_SANITIZE)
  near_object_library(near_design_shim ${shim_sources})
  near_design_flags(near_design_shim)
endif()

# The shared parts on the tests' operating system.
if(NEAR_TESTS AND EXISTS ${fake_os})
  add_library(near_design_fake_os STATIC EXCLUDE_FROM_ALL
    ${fake_os} $<FILTER:$<TARGET_OBJECTS:near_design_shared>,EXCLUDE,/os_linux\\.cc>)
  target_link_libraries(near_design_fake_os PUBLIC near_flags)
  target_include_directories(near_design_fake_os PUBLIC ${PROJECT_SOURCE_DIR}/tests)
endif()

function(near_design name)
  cmake_parse_arguments(arg "" "FOLDER" "DEFINITIONS" ${ARGN})
  set(folder ${name})
  if(DEFINED arg_FOLDER)
    set(folder ${arg_FOLDER})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${designs_dir}/${folder}/*.cc)
  near_object_library(near_design_${name} ${sources} ${per_design})
  near_design_flags(near_design_${name})
  target_include_directories(near_design_${name} PRIVATE ${designs_dir}/${folder})
  target_compile_definitions(near_design_${name} PRIVATE ${arg_DEFINITIONS})
  if(NEAR_SANITIZE)
    return()
  endif()
  near_shared_library(near_design_${name}_library ${name} ${designs_dir}/shared/design.map
    near_design_${name} near_design_shared near_design_twins near_design_shim)
  # Its fork handlers are registered before any other library's.
  target_link_options(near_design_${name}_library PRIVATE LINKER:-z,initfirst)
  set_target_properties(near_design_${name}_library PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/designs)
  set(near_design_names ${near_design_names} ${name}
    CACHE INTERNAL "designs that have a library")
endfunction()

include(${designs_dir}/designs.cmake)
