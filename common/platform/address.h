// What an address belongs to, for a pointer that the program passed.
// Thread-safety: any thread, without locks held.
#pragma once

#include <cstdint>

namespace near {

// True if the address, a multiple of 8, can be read: one system call.
bool is_readable(const void* address);

// True if the address is in the code or the static data of a loaded object.
bool is_in_loaded_object(const void* address);

// A loaded file, with the dynamic linker's name for it: empty for the program.
struct LoadedFile {
  uintptr_t start;
  uintptr_t end;
  uintptr_t base;  // what is added to the addresses in the file
  const void* dynamic;
  const char* name;
};
// The file that has the code. Takes no lock, so that it may be called in malloc. False if there is
// none, or the C library cannot tell without a lock.
bool find_loaded_file(uintptr_t address, LoadedFile& out);

// True if the address is certainly on this thread's own stack, in a frame of a caller. False on a
// stack that the program switched to (of a coroutine, of a signal handler). May allocate.
bool is_on_this_stack(const void* address);

}  // namespace near
