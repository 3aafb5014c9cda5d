// Messages on stderr without allocating, and the end of the process.
// Thread-safety: any thread, also with locks held; one `write` per message, which is no
// cancellation point.
#pragma once

namespace near {

// Writes "nearmalloc: " and the formatted text and a newline to stderr; cut at about 500 bytes.
__attribute__((format(printf, 1, 2))) void message(const char* format, ...);

// Writes the formatted text alone.
__attribute__((format(printf, 1, 2))) void print(const char* format, ...);

// From here on what is said reaches stderr also after the program closed it, as many do at exit.
// Before other threads.
void keep_stderr();

}  // namespace near
