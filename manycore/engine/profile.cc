#include "engine/profile.h"

#include <dlfcn.h>
#include <link.h>

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
Measured measured;

namespace {

// The allocator's code: the segment that holds its malloc.
struct Code {
  uintptr_t address = 0;
  uintptr_t begin = 0, end = 0;
  bool has(const void* site) const {
    const auto at = reinterpret_cast<uintptr_t>(site);
    return at >= begin && at < end;
  }
};
Code allocator;

int find_code(dl_phdr_info* info, size_t, void*) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    if (allocator.address < begin || allocator.address >= begin + part.p_memsz) continue;
    allocator.begin = begin;
    allocator.end = begin + part.p_memsz;
    return 1;
  }
  return 0;
}

Counts all_counts() {
  Counts all{};
  each_fiber([&](const Fiber& fiber) { all.add(fiber.counts, {}); });
  return all;
}

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
  allocator.address = reinterpret_cast<uintptr_t>(dlsym(RTLD_NEXT, "malloc"));
  dl_iterate_phdr(find_code, nullptr);
}

Counts counts_of_run() { return measured.ended ? measured.counts : all_counts(); }

void count_transfer(uintptr_t address, size_t bytes, Access kind, const Outcome& outcome,
                    const void* site) {
  const bool by_allocator = allocator.has(site);
  const bool moved =
      outcome.source == Source::kTransferNear || outcome.source == Source::kTransferFar;
  self->counts.transfers_allocator += by_allocator && moved;
  if (measured.ended) return;
  ContendedLine& line = lines.at(address / kLineBytes + 1);
  ++(outcome.source == Source::kTransferFar ? line.far : line.near);
  line.waited += outcome.cost;
  line.waited_allocator += by_allocator ? outcome.cost : 0;
  Part& part = part_of(line, static_cast<uint16_t>(address % kLineBytes),
                       static_cast<uint16_t>(bytes), kind, site);
  ++part.count;
  part.waited += outcome.cost;
  part.processors.add(here->id);
}

void count_lock(const void* lock, const char* kind, Time waited, const void* site) {
  self->counts.waited_locks += waited;
  if (measured.ended) return;
  LockProfile& profile = locks.at(reinterpret_cast<uintptr_t>(lock));
  profile.kind = kind;
  ++profile.taken;
  if (waited == 0) return;
  ++profile.contended;
  profile.waited += waited;
  profile.waited_allocator += allocator.has(site) ? waited : 0;
  profile.site = site;
}

namespace {

void count_call(const char* name, const CallOutcome& outcome) {
  unsigned i = 0;
  while (i < call_count && std::strcmp(calls[i].name, name) != 0) ++i;
  if (i == kMostCalls) fail("too many kinds of calls");
  if (i == call_count) calls[call_count++].name = name;
  ++calls[i].count;
  calls[i].cost += outcome.cost;
  calls[i].waited += outcome.waited;
}

}  // namespace

void charge(const char* name, const CallOutcome& outcome) {
  if (!measured.ended) count_call(name, outcome);
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

// --- the part of the run that a workload of the lab measures (lab/workloads/workload.cc) ---

extern "C" __attribute__((visibility("default"))) void near_manycore_measure_begin() {
  if (!simulated) return;
  lines.each([](ContendedLine& line) {
    const ContendedLine before = line;
    line = {};
    line.key = before.key;
    line.parts = before.parts;
    if (line.parts != nullptr) std::fill_n(line.parts, ContendedLine::kParts, Part{});
  });
  locks.each([](LockProfile& lock) {
    lock.taken = lock.contended = 0;
    lock.waited = lock.waited_allocator = 0;
  });
  call_count = 0;
  std::fill_n(calls, kMostCalls, CallProfile{});
  measured = {true, false, here->clock, all_counts(), pages().present_bytes(), 0};
}

extern "C" __attribute__((visibility("default"))) void near_manycore_measure_end() {
  if (!simulated || !measured.begun || measured.ended) return;
  Counts counts{};
  counts.add(all_counts(), measured.counts);
  measured.counts = counts;
  measured.time = here->clock - measured.time;
  measured.present_end = pages().present_bytes();
  measured.ended = true;
}

// What the process has in memory now; its files of /proc are the host's.
extern "C" __attribute__((visibility("default"))) long near_manycore_present_kib() {
  return static_cast<long>(pages().present_bytes() >> 10);
}

}  // namespace near::manycore
