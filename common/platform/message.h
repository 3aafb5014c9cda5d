// Writes messages to stderr without allocating. `fail` (base/assert.h) also ends the process.
// Thread-safety: any thread, also with locks held. Each message is one `write` and no cancellation
// point.
#pragma once

namespace near {

// Writes "nearmalloc: ", the formatted text and a newline to stderr; cut at about 500 bytes.
__attribute__((format(printf, 1, 2))) void message(const char* format, ...);

// Writes the formatted text alone.
__attribute__((format(printf, 1, 2))) void print(const char* format, ...);

// After this call messages reach stderr even if the program closes it, as many programs do at exit.
// Called before other threads exist.
void keep_stderr();

}  // namespace near
