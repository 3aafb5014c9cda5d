// Keeps the object that contains this code in memory. If the archive is linked into a plugin, the
// plugin must not be unloaded: its thread-specific key, fork handlers and helper thread stay after
// a dlclose.
// Thread-safety: only the library's constructor calls it.
#pragma once

namespace near {

// Has no effect in a program, or in a library that is never unloaded, as ours are. It takes the
// loader's lock, which the thread of a constructor holds already; a thread that held a lock of ours
// could deadlock with one that holds the loader's lock and waits for ours.
void pin_own_object();

}  // namespace near
