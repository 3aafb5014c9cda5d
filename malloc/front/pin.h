// Keeps the object that contains this code in memory: an archive that is linked into a plugin
// brings a key of each thread, fork handlers and a thread, which outlive any dlclose.
// Thread-safety: the library's constructor.
#pragma once

namespace near {

// Has no effect in a program, or in a library that stays by itself, as ours do. It takes the
// loader's lock, which a constructor has already; a thread that held a lock of ours could deadlock
// with one that has the loader's lock and wants ours.
void pin_own_object();

}  // namespace near
