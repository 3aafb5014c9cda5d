// The plugin's arguments: `cpus=0:0+1:0+2:1,out=FILE[,cache_kib=256][,ways=8][,line=64]`.
//
// Invariant: what parse() returns is usable: every CPU from 0 on has a node, the file can be
// written, the number of the cache's sets is a power of two. Thread-safety: plugin.cc, once.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "cache.h"

namespace nearcount {

struct ArgumentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Arguments {
  std::vector<unsigned> node_of_cpu;
  std::string out;
  CacheSize cache;
};

// Throws ArgumentError, which says in one line what is wrong.
Arguments parse(const std::vector<std::string>& words);

}  // namespace nearcount
