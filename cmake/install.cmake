# What `cmake --install` puts where: four libraries, the headers, a CMake package, two pkg-config
# files, the man page.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS nearmalloc nearmalloc_static nearmalloc_api nearmalloc_api_static
  EXPORT nearmallocTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/nearmalloc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES docs/nearmalloc.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/nearmalloc)
install(EXPORT nearmallocTargets NAMESPACE nearmalloc:: DESTINATION ${package_dir})
configure_package_config_file(cmake/nearmallocConfig.cmake.in nearmallocConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(nearmallocConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/nearmallocConfig.cmake ${PROJECT_BINARY_DIR}/nearmallocConfigVersion.cmake
  DESTINATION ${package_dir})

file(RELATIVE_PATH pkgconfig_to_include
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(cmake/nearmalloc.pc.in nearmalloc.pc @ONLY)
configure_file(cmake/nearmalloc-api.pc.in nearmalloc-api.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/nearmalloc.pc ${PROJECT_BINARY_DIR}/nearmalloc-api.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
