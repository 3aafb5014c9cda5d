// Keeps the object that contains this code in memory: an archive that is linked into a plugin comes
// with a key of each thread, fork handlers and a thread, which outlive any dlclose.
// Thread-safety: the library's constructor.
#pragma once

namespace near {

// Without effect in a program, and in a library that stays by itself, as ours do. Takes the
// loader's lock, which a constructor has already; a thread that held a lock of ours could wait for
// one that has the loader's and wants ours.
void pin_own_object();

}  // namespace near
