// Whether an address can be a block of the C library's own malloc, whose free ends the process at
// other addresses, or crashes.
// Thread-safety: any thread, without locks held.
#pragma once

namespace near {

// True if the function is one of the C library, as far as that is known without a lock.
bool is_in_c_library(const void* function);

// True if what lies around the address, which can be read and is a multiple of 16, looks like a
// block that glibc's malloc handed out. Data of a program looks so by chance alone.
bool looks_like_libc_block(const void* address);

}  // namespace near
