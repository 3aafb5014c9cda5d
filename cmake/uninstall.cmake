# cmake -DMANIFEST=<file> -P uninstall.cmake removes what `cmake --install` put in place: the files
# that the manifest lists, the byte code that Python cached beside them, and the folders of this
# project's name that are then empty.

if(NOT EXISTS "${MANIFEST}")
  message(FATAL_ERROR "${MANIFEST} is missing: nothing was installed from this build tree")
endif()
file(STRINGS "${MANIFEST}" files)

# The folder that has all of them: the prefix. Names above it are not this project's.
list(GET files 0 prefix)
foreach(file IN LISTS files)
  cmake_path(IS_PREFIX prefix "${file}" has_file)
  while(NOT has_file)
    cmake_path(GET prefix PARENT_PATH prefix)
    cmake_path(IS_PREFIX prefix "${file}" has_file)
  endwhile()
endforeach()

foreach(file IN LISTS files)
  file(REMOVE "$ENV{DESTDIR}${file}")
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET file STEM module)
  file(GLOB caches "$ENV{DESTDIR}${folder}/__pycache__/${module}.*.pyc")
  if(file MATCHES "\\.py$" AND caches)
    file(REMOVE ${caches})
    list(APPEND folders "${folder}/__pycache__")
  endif()
  list(APPEND folders "${folder}")
endforeach()

foreach(folder IN LISTS folders)
  cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${prefix}" OUTPUT_VARIABLE below)
  while(below MATCHES "(^|/)nearmalloc")
    file(GLOB rest "$ENV{DESTDIR}${prefix}/${below}/*")
    if(rest)
      break()
    endif()
    file(REMOVE_RECURSE "$ENV{DESTDIR}${prefix}/${below}")
    cmake_path(GET below PARENT_PATH below)
  endwhile()
endforeach()

list(LENGTH files number)
message(STATUS "Removed ${number} files from $ENV{DESTDIR}${prefix}")
