// The description of a run, a text file that the driver writes: the machine's lines, and the run's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/machine.h"

namespace near::manycore {

// A file or a folder that the process sees another one in place of.
struct Pretended {
  char path[256] = {};
  char other[1024] = {};
};

struct Description {
  Machine machine;
  unsigned online = 0;       // the first so many processors exist for the process
  uint64_t seed = 1;
  Time slack = 0;            // how far a hit may run ahead of other processors
  unsigned report_lines = 40;
  bool blocks = true;        // allocations are recorded, to name them
  char result[1024] = {};    // the path of the result
  Pretended pretended[4];    // the unused ones are empty
};

const Description& description();

// Reads the file, or ends the process with a message.
void read_description(const char* path);

}  // namespace near::manycore
