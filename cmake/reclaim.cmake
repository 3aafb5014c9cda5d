# The reclamation library: reclaim/ on the layers base, platform and sync.
#
# near_reclaim: the objects. Its headers are templates; what needs the system is compiled here.
# near_timeline: the recorder of timelines alone, as a library for any program; it needs libc only.

file(GLOB reclaim_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reclaim/*.cc)
set(reclaim_platform clock futex message ticks)
list(TRANSFORM reclaim_platform REPLACE "(.+)" ${PROJECT_SOURCE_DIR}/src/platform/\\1.cc)

near_object_library(near_reclaim
  ${reclaim_sources} ${reclaim_platform} ${PROJECT_SOURCE_DIR}/src/sync/mutex.cc)
target_include_directories(near_reclaim PRIVATE ${PROJECT_SOURCE_DIR})

file(GLOB timeline_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reclaim/timeline*.cc)
add_library(near_timeline STATIC ${timeline_sources} ${PROJECT_SOURCE_DIR}/src/platform/ticks.cc)
target_link_libraries(near_timeline PUBLIC near_flags PRIVATE near_library_flags)
target_include_directories(near_timeline PRIVATE ${PROJECT_SOURCE_DIR})
set_target_properties(near_timeline PROPERTIES POSITION_INDEPENDENT_CODE ON)
