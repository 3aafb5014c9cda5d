# The reclamation library: reclaim/ on the layers base, platform and sync.
#
# near_reclaim: the objects. Its headers are templates; what needs the system is compiled here.

file(GLOB reclaim_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reclaim/*.cc)
set(reclaim_platform clock futex message)
list(TRANSFORM reclaim_platform REPLACE "(.+)" ${PROJECT_SOURCE_DIR}/src/platform/\\1.cc)

near_object_library(near_reclaim
  ${reclaim_sources} ${reclaim_platform} ${PROJECT_SOURCE_DIR}/src/sync/mutex.cc)
target_include_directories(near_reclaim PRIVATE ${PROJECT_SOURCE_DIR})
