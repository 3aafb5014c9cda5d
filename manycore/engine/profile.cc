#include "engine/profile.h"

#include <algorithm>
#include <cstring>

#include "engine/description.h"

namespace near::manycore {

Table<ContendedLine> lines;
Table<LockProfile> locks;
Table<Block> blocks;
constexpr unsigned kMostCalls = 128;
CallProfile calls[kMostCalls];
unsigned call_count = 0;
constexpr unsigned kMostRegions = 64;
Region regions[kMostRegions];
unsigned region_count = 0;
uint64_t digest = 0;

namespace {

// The site and the calls that led to it.
void callers(const void* site, const void* (&into)[kCallers]) {
  into[0] = site;
  for (unsigned i = 1; i < kCallers; ++i) {
    into[i] = self->depth >= i && self->depth - i < Fiber::kFrames ? self->frames[self->depth - i]
                                                                  : nullptr;
  }
}

Part& part_of(ContendedLine& line, uint16_t offset, uint16_t bytes, Access kind, const void* site) {
  if (line.parts == nullptr) {
    line.parts = static_cast<Part*>(reserve(ContendedLine::kParts * sizeof(Part)));
  }
  for (unsigned i = 0; i < line.part_count; ++i) {
    Part& part = line.parts[i];
    if (part.site[0] == site && part.offset == offset && part.kind == kind) return part;
  }
  // The last part is for all sites that found no place.
  if (line.part_count < ContendedLine::kParts) ++line.part_count;
  Part& part = line.parts[line.part_count - 1];
  if (part.count != 0) return part;
  callers(site, part.site);
  part.offset = offset;
  part.bytes = bytes;
  part.kind = kind;
  return part;
}

}  // namespace

void start_profile() {
  lines.create(reserve);
  locks.create(reserve);
  blocks.create(reserve);
}

void count_transfer(uintptr_t address, size_t bytes, Access kind, const Outcome& outcome,
                    const void* site) {
  ContendedLine& line = lines.at(address / kLineBytes + 1);
  ++(outcome.source == Source::kTransferFar ? line.far : line.near);
  line.waited += outcome.cost;
  Part& part = part_of(line, static_cast<uint16_t>(address % kLineBytes),
                       static_cast<uint16_t>(bytes), kind, site);
  ++part.count;
  part.waited += outcome.cost;
  part.processors.add(here->id);
}

void count_lock(const void* lock, const char* kind, Time waited, const void* site) {
  LockProfile& profile = locks.at(reinterpret_cast<uintptr_t>(lock));
  profile.kind = kind;
  ++profile.taken;
  if (waited == 0) return;
  ++profile.contended;
  profile.waited += waited;
  profile.site = site;
  self->counts.waited_locks += waited;
}

void charge(const char* name, const CallOutcome& outcome) {
  unsigned i = 0;
  while (i < call_count && std::strcmp(calls[i].name, name) != 0) ++i;
  if (i == kMostCalls) fail("too many kinds of calls");
  if (i == call_count) calls[call_count++].name = name;
  ++calls[i].count;
  calls[i].cost += outcome.cost;
  calls[i].waited += outcome.waited;
  self->counts.waited_address_space += outcome.waited;
  digest = (digest ^ outcome.cost) * 0x9e3779b97f4a7c15 + here->clock;
  spend(outcome.cost);
}

void charge(const char* name, Time cost) { charge(name, CallOutcome{cost, 0, 0, 0}); }

void count_block(const void* address, size_t bytes, const void* site) {
  if (!description().blocks || address == nullptr) return;
  Block& block = blocks.at(reinterpret_cast<uintptr_t>(address) / kGranule + 1);
  block.bytes = bytes;
  callers(site, block.site);
}

// --- regions: a program marks what should be counted by itself ---

extern "C" __attribute__((visibility("default"))) void near_manycore_region_begin(
    const char* name) {
  if (!simulated) return;
  unsigned i = 0;
  while (i < region_count && std::strcmp(regions[i].name, name) != 0) ++i;
  if (i == kMostRegions) fail("too many regions");
  if (i == region_count) {
    std::strncpy(regions[i].name, name, sizeof regions[i].name - 1);
    ++region_count;
  }
  ++regions[i].entered;
  self->region = i + 1;
  self->region_begin = self->counts;
}

extern "C" __attribute__((visibility("default"))) void near_manycore_region_end() {
  if (!simulated || self->region == 0) return;
  regions[self->region - 1].counts.add(self->counts, self->region_begin);
  self->region = 0;
}

}  // namespace near::manycore
