// The memory system: private L1 and L2 of each core, an L3 of each socket, a directory that keeps
// each line coherent, and the queue of processors that want a busy line.
//
// Invariant: a line that a core owns is in no other core's caches. All state changes happen in the
// order of the calls, so that equal calls give equal costs.
#pragma once

#include "model/machine.h"
#include "model/table.h"

namespace near::manycore {

enum class Access : uint8_t { kRead, kWrite, kUpdate };  // kUpdate: an atomic read-modify-write

enum class Source : uint8_t {
  kL1,
  kL2,
  kL3,
  kMemoryLocal,
  kMemoryRemote,
  kTransferNear,  // from another core of this socket, or its copy is invalidated
  kTransferFar,   // the same for another socket
};
inline constexpr size_t kSources = 7;

struct Outcome {
  Time cost;    // of the whole access, `waited` included
  Time waited;  // for a line that another processor is transferring
  Source source;
  bool coherence;  // another core's write took the line from this core, or this access takes it
                   // from other cores
};

// A set-associative cache of line numbers; each set is ordered by recency.
class CacheTags {
 public:
  enum State : uint64_t { kLost, kShared, kOwned };  // kLost: another core's write took the line

  void create(const Cache& cache, Reserve reserve);
  // The state of a line, or kAbsent. Changes nothing.
  static constexpr uint64_t kAbsent = 3;
  uint64_t find(uint64_t line) const {
    const uint64_t* const set = set_of(line);
    for (unsigned way = 0; way < ways_; ++way) {
      if (set[way] >> 2 == line + 1) return set[way] & 3;
    }
    return kAbsent;
  }
  // Whether an access hits; then the line becomes the most recent of its set.
  bool hit(uint64_t line, bool write) {
    uint64_t* const set = set_of(line);
    const uint64_t least = (line + 1) << 2 | (write ? kOwned : kShared);
    for (unsigned way = 0; way < ways_; ++way) {
      const uint64_t entry = set[way];
      if (entry < least || entry > ((line + 1) << 2 | kOwned)) continue;
      for (; way > 0; --way) set[way] = set[way - 1];
      set[0] = entry;
      return true;
    }
    return false;
  }
  // The line becomes the most recent of its set, in this state. Returns the evicted entry, or 0.
  uint64_t insert(uint64_t line, State state);
  void set_state(uint64_t line, State state);  // no effect on an absent line
  void remove(uint64_t line);

  static uint64_t line_of(uint64_t entry) { return (entry >> 2) - 1; }
  static State state_of(uint64_t entry) { return static_cast<State>(entry & 3); }

 private:
  uint64_t* set_of(uint64_t line) const { return tags_ + (line & mask_) * ways_; }

  uint64_t* tags_ = nullptr;  // (line + 1) << 2 | state; 0: an empty way
  size_t mask_ = 0;  // the number of sets, a power of two, less one
  unsigned ways_ = 1;
};

class Memory {
 public:
  // The machine should outlive the memory.
  void create(const Machine& machine, Reserve reserve);

  // One access to one line. `node` is where its page lies.
  Outcome access(unsigned processor, uintptr_t address, Access kind, unsigned node, Time now);

  // Whether an access is a hit in the L1, which changes nothing that another core can see.
  bool hit(unsigned processor, uintptr_t address, Access kind) {
    CacheTags& l1 = l1_[machine_->core_of[processor]];
    return l1.hit(address / kLineBytes, kind != Access::kRead);
  }

  // The lines of [begin, begin + bytes) are in no cache any more: their page is gone.
  void forget(uintptr_t begin, size_t bytes);

  // Ends the process if a line is owned by a core and in another's caches. For tests.
  void check() const;

 private:
  static constexpr uint16_t kNobody = 0xffff;
  struct Sharers {
    uint64_t words[kMostCores / 64];
  };
  static constexpr unsigned kFew = 4;
  struct Line {
    uint64_t key;  // the line number + 1; 0: empty
    Time busy_until;
    Sharers* many;           // if more cores than `few` holds share the line
    uint16_t few[kFew];      // the cores that share it, or its owner alone
    uint16_t count;          // of cores
    uint16_t l3;             // a bit for each socket whose L3 has a valid copy
    bool owned;
  };
  bool has(const Line& line, unsigned core) const;
  void add(Line& line, unsigned core);
  void drop(Line& line, unsigned core);
  template <typename Visit>
  void each_core(const Line& line, Visit visit) const;

  Outcome upgrade(Line& line, uint64_t number, unsigned core);
  Outcome fetch(Line& line, uint64_t number, unsigned core, bool write, unsigned node);
  Source invalidate_others(Line& line, uint64_t number, unsigned core, Time& cost);
  Outcome from_owner(Line& line, uint64_t number, unsigned core, bool write);
  void keep(uint64_t number, unsigned core, CacheTags::State state);
  void evicted(uint64_t entry, unsigned core);
  void into_l3(Line& line, uint64_t number, unsigned socket);
  Time between(unsigned from, unsigned to) const;
  bool same_socket(unsigned a, unsigned b) const { return socket_[a] == socket_[b]; }
  Source transfer(unsigned a, unsigned b) const {
    return same_socket(a, b) ? Source::kTransferNear : Source::kTransferFar;
  }

  const Machine* machine_ = nullptr;
  Reserve reserve_ = nullptr;
  CacheTags* l1_ = nullptr;  // by core
  CacheTags* l2_ = nullptr;
  CacheTags* l3_ = nullptr;  // by socket
  uint16_t socket_[kMostCores] = {};
  uint16_t node_[kMostCores] = {};
  Sharers* free_sharers_ = nullptr;
  Table<Line> lines_;
};

}  // namespace near::manycore
