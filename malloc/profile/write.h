// Writes what the profiler recorded, in the formats of tools.
//
// Sites are copied one by one, so other threads may allocate meanwhile, and sums of sites that are
// written later may contain more. No site is folded meanwhile (profiler.h, HeldSites). Names of
// files and functions are read from the loaded files, so no thread may unload one.
// Thread-safety: any thread without locks held, also in a handler that did not interrupt the
// allocator or the dynamic linker; the handler of front/profile.cc can test the former only.
#pragma once

#include "profile/sink.h"

namespace near::profile {

// The values of the option profile_format, and of near_profile_format.
enum class Format : long { pprof, json, jeprof, collapsed, collapsed_live };
inline constexpr long kFormats = 5;

// False if nothing was ever recorded. Whether the writing succeeded is known by flush().
bool write_profile(Sink& out, Format format);

void write_pprof(Sink& out);
void write_json(Sink& out);
void write_jeprof(Sink& out);
void write_collapsed(Sink& out, bool live);

}  // namespace near::profile
