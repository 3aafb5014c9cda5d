# Compiler and linker flags, as two interface targets: near_flags for all code here,
# near_library_flags for the code of the allocator's libraries. Both compilers get the same rules.

add_library(near_flags INTERFACE)
target_compile_features(near_flags INTERFACE cxx_std_20)
target_include_directories(near_flags INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/common> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/malloc>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
# With NEAR_CHECK all targets have run-time checks but those with NEAR_UNCHECKED on; without it only
# those with NEAR_CHECKED on.
if(NEAR_CHECK)
  target_compile_definitions(near_flags INTERFACE
    NEAR_CHECK=$<NOT:$<BOOL:$<TARGET_PROPERTY:NEAR_UNCHECKED>>>)
else()
  target_compile_definitions(near_flags INTERFACE
    NEAR_CHECK=$<BOOL:$<TARGET_PROPERTY:NEAR_CHECKED>>)
endif()
target_compile_options(near_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  # Clang includes signedness in -Wconversion; GCC does not for C++. This makes them equal.
  -Wno-sign-conversion)
if(NEAR_SANITIZE)
  target_compile_options(near_flags INTERFACE
    -fsanitize=${NEAR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(near_flags INTERFACE -fsanitize=${NEAR_SANITIZE})
endif()
if(NEAR_SANITIZE MATCHES "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Clang would put local variables on a heap of its own; the allocator knows those on a stack.
  target_compile_options(near_flags INTERFACE -fsanitize-address-use-after-return=never)
endif()
if(NEAR_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In instrumented arithmetic GCC cannot see that a value fits; other builds keep the warning.
  target_compile_options(near_flags INTERFACE -Wno-conversion)
endif()
if(NEAR_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC warns that its TSan ignores fences. The protocols order by operations, and Relacy models the
  # fences.
  target_compile_options(near_flags INTERFACE -Wno-tsan)
endif()

# Code that runs on simulated processors (manycore/): each access, atomic operation and basic block
# is a call of the engine. What inline assembly does is unseen.
if(NEAR_MANYCORE)
  target_compile_options(near_flags INTERFACE
    -fsanitize=thread -fsanitize-coverage=trace-pc $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  target_link_libraries(near_flags INTERFACE $<LINK_ONLY:near_manycore>)
endif()

# Only one library of a process is initialised before the others: the engine, where it is.
function(near_initialised_first target)
  if(NOT NEAR_MANYCORE)
    target_link_options(${target} PRIVATE LINKER:-z,initfirst)
  endif()
endfunction()

# Without these flags the compiler may turn malloc + memset in our calloc into a call of calloc.
set(own_names
  malloc calloc realloc free aligned_alloc posix_memalign memalign valloc pvalloc reallocarray)
list(TRANSFORM own_names PREPEND -fno-builtin-)

add_library(near_library_flags INTERFACE)
target_link_libraries(near_library_flags INTERFACE near_flags)
target_compile_options(near_library_flags INTERFACE
  ${own_names}
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti -fno-threadsafe-statics>
  -fvisibility=hidden
  -ftls-model=initial-exec)
