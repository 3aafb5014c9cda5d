// What an address belongs to, for a pointer that the program passed.
// Thread-safety: any thread, without locks held.
#pragma once

namespace near {

// True if the address, a multiple of 8, can be read: one system call.
bool is_readable(const void* address);

// True if the address is in the code or the static data of a loaded object.
bool is_in_loaded_object(const void* address);

// True if the address is certainly on this thread's own stack, in a frame of a caller. False on a
// stack that the program switched to (of a coroutine, of a signal handler). May allocate.
bool is_on_this_stack(const void* address);

}  // namespace near
