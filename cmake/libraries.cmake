# The object libraries and the four libraries of the allocator.
#
# near_sources_of(<variable> <folder>...) collects the sources of folders, so that a new file needs
# no edit here. A static library is one relocatable object: a program that needs one name gets all
# of them, so no program mixes this library's malloc with glibc's aligned_alloc; names that are not
# exported cannot clash with the program's.

function(near_sources_of variable)
  set(sources)
  foreach(folder IN LISTS ARGN)
    file(GLOB folder_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
    list(APPEND sources ${folder_sources})
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# The files of a folder are compiled together, in their order. NEAR_UNITY=OFF compiles each alone,
# and shows that each includes what it uses.
option(NEAR_UNITY "Compile the files of a folder together" ON)
function(near_unity target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME group)
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${NEAR_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

function(near_object_library name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PUBLIC near_flags PRIVATE near_library_flags)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endfunction()

# What an empty process does not run comes last: the kernel maps code in windows of 64 KiB.
near_sources_of(core_sources malloc/front malloc/heap malloc/span malloc/sizes malloc/node
  common/sync common/platform common/base malloc/profile malloc/inspect)
near_sources_of(shim_sources malloc/shim)
# Designs leave out the files that interpose functions of the C library, because these files need
# options and a map that designs do not have. They have no probes either.
list(FILTER shim_sources EXCLUDE REGEX
  "/(near_(api|node|standard)|dlopen|libc|limits|probe_base|thread_create)\\.cc$")
list(FILTER shim_sources EXCLUDE REGEX "/jemalloc_[a-z]+\\.cc$")
file(GLOB jemalloc_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/malloc/shim/jemalloc_*.cc)

near_object_library(near_core ${core_sources})
near_unity(near_core)
# Tests replace the objects of these files.
set(replaced_by_tests clock.cc cpu.cc os_linux.cc)
list(TRANSFORM replaced_by_tests PREPEND ${PROJECT_SOURCE_DIR}/common/platform/)
set_source_files_properties(${replaced_by_tests} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# A sample may follow frame pointers, from here to the program.
file(GLOB sampling_sources malloc/profile/*.cc)
list(APPEND sampling_sources malloc/front/sampled.cc)
set_source_files_properties(${sampling_sources} PROPERTIES
  COMPILE_OPTIONS -fno-omit-frame-pointer)
set(api_sources
  malloc/shim/near_api.cc malloc/shim/near_node.cc malloc/shim/near_standard.cc)
near_object_library(near_api ${api_sources})

# Objects on an operating system that tests control: tests/support/fake_os.cc replaces os_linux.cc.
function(near_fake_os_library name objects)
  set(fake_os ${PROJECT_SOURCE_DIR}/tests/support/fake_os.cc)
  if(NOT NEAR_TESTS OR NOT EXISTS ${fake_os})
    return()
  endif()
  add_library(${name} STATIC EXCLUDE_FROM_ALL
    ${fake_os} $<FILTER:$<TARGET_OBJECTS:${objects}>,EXCLUDE,/os_linux\\.cc>)
  target_link_libraries(${name} PUBLIC near_flags)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/tests)
endfunction()

near_fake_os_library(near_core_fake_os near_core)

# The objects of the fuzzers report which edges they execute.
if(NEAR_FUZZ)
  near_object_library(near_core_fuzzed ${core_sources})
  near_unity(near_core_fuzzed)
  near_object_library(near_api_fuzzed ${api_sources})
  foreach(target near_core_fuzzed near_api_fuzzed)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
  endforeach()
  near_fake_os_library(near_core_fuzzed_fake_os near_core_fuzzed)
endif()

# This program prints the option table, for docs/options.md and its check.
if(EXISTS ${PROJECT_SOURCE_DIR}/ci/near_options.cc)
  add_executable(near_options ci/near_options.cc)
  target_link_libraries(near_options PRIVATE near_core near_api)
  set_target_properties(near_options PROPERTIES OUTPUT_NAME near-options)
endif()

if(NEAR_SANITIZE)
  return()
endif()

near_object_library(near_shim ${shim_sources})
# The names of jemalloc are for the library and the archive with the standard names.
near_object_library(near_jemalloc ${jemalloc_sources})
# These are not in the archives, which must not define names of the C library that a program defines
# or wraps itself.
near_object_library(near_interposed malloc/shim/dlopen.cc malloc/shim/limits.cc
  malloc/shim/thread_create.cc)
near_object_library(near_probe_base malloc/shim/probe_base.cc)
# Calls of the C library that only the simulator of processors interposes.
if(NEAR_MANYCORE)
  near_object_library(near_libc manycore/libc_of_process.cc)
else()
  near_object_library(near_libc malloc/shim/libc.cc)
endif()
# GCC's other register allocator saves a move in malloc (15 instructions instead of 16).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(near_api PRIVATE -fira-algorithm=priority)
  target_compile_options(near_shim PRIVATE -fira-algorithm=priority)
endif()
# The fast paths begin at a cache line, so that their speed does not depend on the code before them.
foreach(target near_api near_shim)
  target_compile_options(${target} PRIVATE -falign-functions=64)
endforeach()
# Only this file catches an exception.
set_source_files_properties(malloc/shim/new_catch.cc PROPERTIES COMPILE_OPTIONS -fexceptions)
# Calls of public names in these files jump through the GOT, without a stub.
set_source_files_properties(malloc/shim/new_delete.cc malloc/shim/new_nothrow.cc
  PROPERTIES COMPILE_OPTIONS "-fno-plt;-fsemantic-interposition")

function(near_shared_library name output_name version_script)
  set(objects ${ARGN})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  add_library(${name} SHARED ${objects})
  set_target_properties(${name} PROPERTIES
    OUTPUT_NAME ${output_name}
    LINKER_LANGUAGE CXX
    LINK_DEPENDS "${version_script}")
  # libgcc is the static helper library of the compiler (aarch64 calls it for atomics); only libc is
  # loaded.
  target_link_libraries(${name} PRIVATE gcc c)
  if(NEAR_MANYCORE)
    target_link_libraries(${name} PRIVATE near_manycore)
  endif()
  target_link_options(${name} PRIVATE
    -nodefaultlibs
    LINKER:--version-script=${version_script}
    LINKER:--no-undefined
    # The C library's part of pthread_atfork stands with the code that a starting process runs.
    LINKER:-u,pthread_atfork,-lc
    LINKER:-z,now,-z,relro
    # Calls inside the library bind to it. Its public variables do not: an executable may have the
    # copy that all use.
    LINKER:-Bsymbolic-functions
    # The thread-exit hook and live blocks are needed after any dlclose.
    LINKER:-z,nodelete)
endfunction()

# The library looks up the functions that a program may replace. All else in it binds to it.
function(near_library_is_replaceable name)
  set(list ${PROJECT_SOURCE_DIR}/malloc/shim/replaceable.list)
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS ${list})
  target_link_options(${name} PRIVATE LINKER:--dynamic-list=${list})
endfunction()

# A library without a pthread_create of its own calls the C library's by that name (shim/libc.cc).
function(near_creates_threads_by_libc name)
  if(NOT NEAR_MANYCORE)
    target_link_options(${name} PRIVATE LINKER:--defsym=pthread_create=libc_pthread_create)
  endif()
endfunction()

function(near_static_library name output_name)
  set(objects ${ARGN})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  set(merged ${CMAKE_CURRENT_BINARY_DIR}/merged/${name}/${output_name}.o)
  add_custom_command(OUTPUT ${merged}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/merged/${name}
    COMMAND ${CMAKE_CXX_COMPILER} -r -nostdlib -Wl,--force-group-allocation -o ${merged} ${objects}
    # The standard names are weak: a malloc or operator new of the program, or of a sanitizer's
    # runtime, takes their place. Valgrind replaces no weak name, so shared libraries have none.
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --compress-debug-sections=zlib
      --wildcard --weaken-symbol=!near_* --weaken-symbol=*alloc* --weaken-symbol=*free*
      --weaken-symbol=*memalign --weaken-symbol=mall* --weaken-symbol=_Zn* --weaken-symbol=_Zd*
      ${merged}
    DEPENDS ${objects}
    COMMAND_EXPAND_LISTS VERBATIM
    COMMENT "Merging ${output_name}.o")
  add_library(${name} STATIC ${merged})
  set_source_files_properties(${merged} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set_target_properties(${name} PROPERTIES OUTPUT_NAME ${output_name} LINKER_LANGUAGE C)
  near_public_interface(${name})
endfunction()

# Libraries that programs link have a version in their names; libraries only for preload do not.
function(near_public_interface name)
  get_target_property(type ${name} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    set_target_properties(${name} PROPERTIES
      VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  endif()
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
endfunction()

near_shared_library(nearmalloc nearmalloc ${PROJECT_SOURCE_DIR}/malloc/shim/nearmalloc.map
  near_shim near_jemalloc near_interposed near_core near_api near_libc near_probe_base)
near_shared_library(nearmalloc_api nearmalloc-api
  ${PROJECT_SOURCE_DIR}/malloc/shim/nearmalloc-api.map
  near_core near_api near_libc near_probe_base)
near_library_is_replaceable(nearmalloc)
near_public_interface(nearmalloc)
near_public_interface(nearmalloc_api)
near_creates_threads_by_libc(nearmalloc_api)
# With initfirst their fork handlers are registered before any other library's.
near_initialised_first(nearmalloc)
near_initialised_first(nearmalloc_api)
# The tests of a plain build also run on libraries with checks, in <build>/checked.
if(NEAR_TESTS AND NOT NEAR_CHECK AND NOT NEAR_MANYCORE AND NOT CMAKE_CROSSCOMPILING)
  near_object_library(near_core_checked ${core_sources})
  near_unity(near_core_checked)
  near_object_library(near_api_checked ${api_sources})
  near_object_library(near_shim_checked ${shim_sources})
  near_object_library(near_jemalloc_checked ${jemalloc_sources})
  set_target_properties(near_core_checked near_api_checked near_shim_checked near_jemalloc_checked
    PROPERTIES
    NEAR_CHECKED ON EXCLUDE_FROM_ALL ON)
  near_shared_library(nearmalloc_checked nearmalloc
    ${PROJECT_SOURCE_DIR}/malloc/shim/nearmalloc.map
    near_shim_checked near_jemalloc_checked near_interposed near_core_checked near_api_checked
    near_libc near_probe_base)
  near_shared_library(nearmalloc_api_checked nearmalloc-api
    ${PROJECT_SOURCE_DIR}/malloc/shim/nearmalloc-api.map
    near_core_checked near_api_checked near_libc near_probe_base)
  near_library_is_replaceable(nearmalloc_checked)
  near_creates_threads_by_libc(nearmalloc_api_checked)
  near_static_library(nearmalloc_checked_static nearmalloc
    near_core_checked near_api_checked near_shim_checked near_jemalloc_checked)
  near_static_library(nearmalloc_api_checked_static nearmalloc-api
    near_core_checked near_api_checked)
  foreach(target nearmalloc_checked nearmalloc_api_checked)
    near_initialised_first(${target})
    set_target_properties(${target} PROPERTIES
      SOVERSION ${PROJECT_VERSION_MAJOR} VERSION ${PROJECT_VERSION})
  endforeach()
  set(checked_libraries nearmalloc_checked nearmalloc_api_checked
    nearmalloc_checked_static nearmalloc_api_checked_static)
  set_target_properties(${checked_libraries} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/checked
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/checked)
  # Tests find the reclamation library beside them; it has no checks of its own.
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/checked)
  foreach(file libnearreclaim.so libnearreclaim.so.${PROJECT_VERSION_MAJOR} libnearreclaim.a)
    file(CREATE_LINK ${PROJECT_BINARY_DIR}/${file} ${PROJECT_BINARY_DIR}/checked/${file} SYMBOLIC)
  endforeach()
endif()

near_static_library(nearmalloc_static nearmalloc near_core near_api near_shim near_jemalloc)
near_static_library(nearmalloc_api_static nearmalloc-api near_core near_api)

# A program may call malloc only through libraries; -u makes the linker take the object anyway.
target_link_options(nearmalloc_static INTERFACE LINKER:-u,malloc)
# Compilers leave the index of unwind tables out of static programs; the profiler's stacks need it.
target_link_options(nearmalloc_static INTERFACE LINKER:--eh-frame-hdr)
target_link_options(nearmalloc_api_static INTERFACE LINKER:--eh-frame-hdr)

set_target_properties(nearmalloc_static PROPERTIES EXPORT_NAME static)
set_target_properties(nearmalloc_api PROPERTIES EXPORT_NAME api)
set_target_properties(nearmalloc_api_static PROPERTIES EXPORT_NAME api_static)
add_library(nearmalloc::nearmalloc ALIAS nearmalloc)
add_library(nearmalloc::static ALIAS nearmalloc_static)
add_library(nearmalloc::api ALIAS nearmalloc_api)
add_library(nearmalloc::api_static ALIAS nearmalloc_api_static)
