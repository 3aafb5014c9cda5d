# `cmake --install` installs six libraries, the headers, a CMake package, three pkg-config files,
# the man page and the files that it refers to, and Valgrind's suppressions; and the tools
# (component `tools`), of which nearmalloc_tools/library.py and debugger/near_*.py know where they
# lie.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(
  TARGETS nearmalloc nearmalloc_static nearmalloc_api nearmalloc_api_static
    nearreclaim nearreclaim_static
  EXPORT nearmallocTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/nearmalloc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES docs/nearmalloc.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
install(FILES docs/options.md docs/memory.md docs/profile.md docs/numa.md docs/latency.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES tools/nearmalloc.supp DESTINATION share/nearmalloc)

# `cmake --build <tree> --target uninstall` removes what the last installation from the tree made.
if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall
    COMMAND ${CMAKE_COMMAND} -DMANIFEST=${PROJECT_BINARY_DIR}/install_manifest.txt
      -P ${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake
    VERBATIM)
endif()

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
foreach(name nearmalloc-api nearmalloc-reclaim)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/nearmalloc.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY tools/nearmalloc_tools DESTINATION lib/nearmalloc/python COMPONENT tools
  PATTERN __pycache__ EXCLUDE)
install(PROGRAMS tools/launcher.py RENAME nearmalloc DESTINATION ${CMAKE_INSTALL_BINDIR}
  COMPONENT tools)
install(FILES
  tools/nearmalloc_tools/debugger/near_gdb.py tools/nearmalloc_tools/debugger/near_lldb.py
  DESTINATION share/nearmalloc COMPONENT tools)
install(FILES docs/nearmalloc.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
