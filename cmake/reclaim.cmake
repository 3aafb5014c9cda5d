# The reclamation library: reclaim/ on the layers of common/. Its headers are templates; the parts
# that need the system are compiled here.
#
# near_reclaim_objects: the objects; near_reclaim: the objects with all that tests need;
# nearreclaim, nearreclaim_static: the installed libraries. They export the names in namespace
# near::reclaim, which the headers call; everything else is hidden.

file(GLOB reclaim_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reclaim/*.cc)
set(reclaim_platform clock fence futex message)
list(TRANSFORM reclaim_platform REPLACE "(.+)" ${PROJECT_SOURCE_DIR}/common/platform/\\1.cc)

near_object_library(near_reclaim_platform ${reclaim_platform})
add_library(near_reclaim_objects OBJECT ${reclaim_sources})
target_link_libraries(near_reclaim_objects PUBLIC near_flags)
target_compile_options(near_reclaim_objects PRIVATE -fno-exceptions -fno-rtti)
target_include_directories(near_reclaim_objects PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(near_reclaim_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)

near_unity(near_reclaim_objects)
# The domain behind a handle has fields of this file's own types.
set_source_files_properties(${PROJECT_SOURCE_DIR}/reclaim/c_interface.cc PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)
set_target_properties(near_reclaim_objects near_reclaim_platform PROPERTIES NEAR_UNCHECKED ON)

add_library(near_reclaim INTERFACE)
target_link_libraries(near_reclaim INTERFACE near_flags
  $<TARGET_OBJECTS:near_reclaim_objects> $<TARGET_OBJECTS:near_reclaim_platform>)
add_dependencies(near_reclaim near_reclaim_objects near_reclaim_platform)

if(NEAR_SANITIZE)
  return()
endif()

near_shared_library(nearreclaim nearreclaim ${PROJECT_SOURCE_DIR}/reclaim/nearreclaim.map
  near_reclaim_objects near_reclaim_platform)
near_public_interface(nearreclaim)
near_static_library(nearreclaim_static nearreclaim near_reclaim_objects near_reclaim_platform)
set_target_properties(nearreclaim PROPERTIES EXPORT_NAME reclaim)
set_target_properties(nearreclaim_static PROPERTIES EXPORT_NAME reclaim_static LINKER_LANGUAGE CXX)
add_library(nearmalloc::reclaim ALIAS nearreclaim)
add_library(nearmalloc::reclaim_static ALIAS nearreclaim_static)
foreach(library nearreclaim nearreclaim_static)
  target_compile_features(${library} INTERFACE cxx_std_20)
endforeach()
