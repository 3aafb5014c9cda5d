#include "model/memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace near::manycore {

// --- tags ---

void CacheTags::create(const Cache& cache, Reserve reserve) {
  ways_ = cache.ways;
  const size_t sets = std::bit_floor(std::max<size_t>(1, cache.bytes / kLineBytes / ways_));
  mask_ = sets - 1;
  tags_ = static_cast<uint64_t*>(reserve(sets * ways_ * sizeof(uint64_t)));
}

uint64_t CacheTags::insert(uint64_t line, State state) {
  uint64_t* const set = set_of(line);
  unsigned place = 0;
  while (place < ways_ - 1 && set[place] >> 2 != line + 1 && set[place] != 0) ++place;
  const uint64_t before = set[place];
  for (; place > 0; --place) set[place] = set[place - 1];
  set[0] = (line + 1) << 2 | state;
  return before != 0 && before >> 2 != line + 1 ? before : 0;
}

void CacheTags::set_state(uint64_t line, State state) {
  uint64_t* const set = set_of(line);
  for (unsigned way = 0; way < ways_; ++way) {
    if (set[way] >> 2 == line + 1) set[way] = (line + 1) << 2 | state;
  }
}

void CacheTags::remove(uint64_t line) {
  uint64_t* const set = set_of(line);
  unsigned kept = 0;
  for (unsigned way = 0; way < ways_; ++way) {
    if (set[way] >> 2 != line + 1) set[kept++] = set[way];
  }
  std::fill(set + kept, set + ways_, uint64_t{0});
}

// --- the directory's entries ---

void Memory::create(const Machine& machine, Reserve reserve) {
  machine_ = &machine;
  reserve_ = reserve;
  for (unsigned i = 0; i < machine.processors; ++i) {
    socket_[machine.core_of[i]] = machine.socket_of[i];
    node_[machine.core_of[i]] = machine.node_of[i];
  }
  const auto caches = [&](const Cache& cache, size_t count) {
    auto* const made = static_cast<CacheTags*>(reserve(count * sizeof(CacheTags)));
    for (unsigned i = 0; i < count; ++i) made[i].create(cache, reserve);
    return made;
  };
  l1_ = caches(machine.l1, machine.cores);
  l2_ = caches(machine.l2, machine.cores);
  l3_ = caches(machine.l3, machine.sockets);
  lines_.create(reserve);
}

bool Memory::has(const Line& line, unsigned core) const {
  if (line.many != nullptr) return line.many->words[core / 64] >> core % 64 & 1;
  return std::find(line.few, line.few + line.count, core) != line.few + line.count;
}

void Memory::add(Line& line, unsigned core) {
  if (has(line, core)) return;
  if (line.many == nullptr && line.count == kFew) {
    if (free_sharers_ == nullptr) {
      line.many = static_cast<Sharers*>(reserve_(sizeof(Sharers)));
    } else {
      line.many = free_sharers_;
      free_sharers_ = reinterpret_cast<Sharers*>(line.many->words[0]);
      line.many->words[0] = 0;
    }
    for (const uint16_t one : line.few) line.many->words[one / 64] |= uint64_t{1} << one % 64;
  }
  if (line.many != nullptr) {
    line.many->words[core / 64] |= uint64_t{1} << core % 64;
  } else {
    line.few[line.count] = static_cast<uint16_t>(core);
  }
  ++line.count;
}

void Memory::drop(Line& line, unsigned core) {
  if (!has(line, core)) return;
  --line.count;
  if (line.many == nullptr) {
    uint16_t* const place = std::find(line.few, line.few + line.count, core);
    *place = line.few[line.count];
    return;
  }
  line.many->words[core / 64] &= ~(uint64_t{1} << core % 64);
  if (line.count > kFew) return;
  uint16_t* place = line.few;
  for (unsigned i = 0; i < machine_->cores; ++i) {
    if (line.many->words[i / 64] >> i % 64 & 1) *place++ = static_cast<uint16_t>(i);
  }
  *line.many = {};
  line.many->words[0] = reinterpret_cast<uintptr_t>(free_sharers_);
  free_sharers_ = line.many;
  line.many = nullptr;
}

// Visits a copy, so that the visitor may drop cores from the line.
template <typename Visit>
void Memory::each_core(const Line& line, Visit visit) const {
  if (line.many == nullptr) {
    uint16_t cores[kFew];
    const unsigned count = line.count;
    std::copy(line.few, line.few + count, cores);
    for (unsigned i = 0; i < count; ++i) visit(cores[i]);
    return;
  }
  const Sharers all = *line.many;
  for (unsigned i = 0; i < machine_->cores; ++i) {
    if (all.words[i / 64] >> i % 64 & 1) visit(i);
  }
}

// --- an access ---

Time Memory::between(unsigned from, unsigned to) const {
  if (same_socket(from, to)) return machine_->transfer_core;
  const Time distance = machine_->distance[node_[from]][node_[to]];
  const Time near = machine_->transfer_core, far = machine_->transfer_socket;
  return distance <= 10 ? (near + far) / 2 : near + (far - near) * (distance - 10) / 10;
}

Outcome Memory::access(unsigned processor, uintptr_t address, Access kind, unsigned node,
                       Time now) {
  const unsigned core = machine_->core_of[processor];
  const uint64_t number = address / kLineBytes;
  const bool write = kind != Access::kRead;
  const Time atomic = kind == Access::kUpdate ? machine_->atomic : 0;
  if (l1_[core].hit(number, write)) return {machine_->l1.hit + atomic, 0, Source::kL1, false};
  const uint64_t in_l2 = l2_[core].find(number);
  if (in_l2 == CacheTags::kOwned || (in_l2 == CacheTags::kShared && !write)) {
    keep(number, core, static_cast<CacheTags::State>(in_l2));
    return {machine_->l2.hit + atomic, 0, Source::kL2, false};
  }
  Line& line = lines_.at(number + 1);
  const Time waited = line.busy_until > now ? line.busy_until - now : 0;
  Outcome outcome = in_l2 == CacheTags::kShared ? upgrade(line, number, core)
                                                : fetch(line, number, core, write, node);
  outcome.coherence |= in_l2 == CacheTags::kLost;
  outcome.cost += atomic + waited;
  outcome.waited = waited;
  line.busy_until = now + outcome.cost;
  return outcome;
}

// --- a miss ---

// A write to a line of which this core has a shared copy.
Outcome Memory::upgrade(Line& line, uint64_t number, unsigned core) {
  const bool alone = line.count == 1;
  Time cost = machine_->l1.hit;
  Source source = Source::kL1;
  if (!alone) source = invalidate_others(line, number, core, cost);
  line.owned = true;
  line.l3 = 0;
  keep(number, core, CacheTags::kOwned);
  return {cost, 0, source, !alone};
}

// Takes the line from all other cores. `cost` grows by that of the farthest.
Source Memory::invalidate_others(Line& line, uint64_t number, unsigned core, Time& cost) {
  Time farthest = 0;
  Source source = Source::kTransferNear;
  each_core(line, [&](unsigned other) {
    if (other == core) return;
    farthest = std::max(farthest, between(core, other));
    if (!same_socket(core, other)) source = Source::kTransferFar;
    l1_[other].remove(number);
    l2_[other].set_state(number, CacheTags::kLost);
    drop(line, other);
  });
  cost += farthest + machine_->invalidate;
  return source;
}

Outcome Memory::fetch(Line& line, uint64_t number, unsigned core, bool write, unsigned node) {
  if (line.owned) return from_owner(line, number, core, write);
  Outcome outcome{};
  if (line.l3 >> socket_[core] & 1) {
    l3_[socket_[core]].insert(number, CacheTags::kShared);
    outcome = {machine_->l3.hit, 0, Source::kL3, false};
  } else {
    const Time distance = machine_->distance[node_[core]][node];
    const Time local = machine_->memory_local, remote = machine_->memory_remote;
    const bool here = distance <= 10;
    outcome.cost = here ? local : local + (remote - local) * (distance - 10) / 10;
    outcome.source = here ? Source::kMemoryLocal : Source::kMemoryRemote;
  }
  if (write && line.count != 0) {
    Time taking = 0;
    outcome.source = invalidate_others(line, number, core, taking);
    outcome.cost = std::max(outcome.cost, taking);
    outcome.coherence = true;
  }
  line.owned = write || line.count == 0;
  add(line, core);
  if (line.owned) {
    line.l3 = 0;
  } else {
    into_l3(line, number, socket_[core]);
  }
  keep(number, core, line.owned ? CacheTags::kOwned : CacheTags::kShared);
  return outcome;
}

// The line is in another core's caches alone.
Outcome Memory::from_owner(Line& line, uint64_t number, unsigned core, bool write) {
  const unsigned owner = line.few[0];
  Outcome outcome{between(core, owner), 0, transfer(core, owner), true};
  if (write) {
    Time taking = 0;  // the transfer itself takes the line
    invalidate_others(line, number, core, taking);
  } else {
    l1_[owner].set_state(number, CacheTags::kShared);
    l2_[owner].set_state(number, CacheTags::kShared);
    line.owned = false;
    into_l3(line, number, socket_[owner]);
  }
  add(line, core);
  keep(number, core, write ? CacheTags::kOwned : CacheTags::kShared);
  return outcome;
}

// --- what the caches hold ---

// The line becomes the most recent of the core's L1 and L2. L2 includes L1.
void Memory::keep(uint64_t number, unsigned core, CacheTags::State state) {
  const uint64_t from_l2 = l2_[core].insert(number, state);
  if (from_l2 != 0) evicted(from_l2, core);
  l1_[core].insert(number, state);
}

void Memory::evicted(uint64_t entry, unsigned core) {
  if (CacheTags::state_of(entry) == CacheTags::kLost) return;
  const uint64_t number = CacheTags::line_of(entry);
  l1_[core].remove(number);
  Line& line = *lines_.find(number + 1);
  drop(line, core);
  line.owned = false;
  into_l3(line, number, socket_[core]);
}

void Memory::into_l3(Line& line, uint64_t number, unsigned socket) {
  line.l3 = static_cast<uint16_t>(line.l3 | 1U << socket);
  const uint64_t out = l3_[socket].insert(number, CacheTags::kShared);
  if (out == 0) return;
  if (Line* const other = lines_.find(CacheTags::line_of(out) + 1)) {
    other->l3 = static_cast<uint16_t>(other->l3 & ~(1U << socket));
  }
}

void Memory::forget(uintptr_t begin, size_t bytes) {
  for (uint64_t number = begin / kLineBytes; number * kLineBytes < begin + bytes; ++number) {
    Line* const line = lines_.find(number + 1);
    if (line == nullptr) continue;
    each_core(*line, [&](unsigned core) {
      l1_[core].remove(number);
      l2_[core].remove(number);
      drop(*line, core);
    });
    for (unsigned socket = 0; socket < machine_->sockets; ++socket) {
      if (line->l3 >> socket & 1) l3_[socket].remove(number);
    }
    line->l3 = 0;
    line->owned = false;
  }
}

void Memory::check() const {
  lines_.each([&](const Line& line) {
    const uint64_t number = line.key - 1;
    if (line.owned && line.count != 1) abort();
    for (unsigned core = 0; core < machine_->cores; ++core) {
      const uint64_t state = l2_[core].find(number);
      const bool holds = state == CacheTags::kShared || state == CacheTags::kOwned;
      if (holds != has(line, core)) abort();
      if (holds && (state == CacheTags::kOwned) != line.owned) abort();
      const uint64_t above = l1_[core].find(number);
      if (above != CacheTags::kAbsent && above != state) abort();
    }
  });
}

}  // namespace near::manycore
