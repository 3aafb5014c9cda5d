// The events: the functions that code compiled with -fsanitize=thread and
// -fsanitize-coverage=trace-pc calls, under the names that the compiler gives them.
//
// An access that hits in the L1 is done in event(); the rest is slow. Since one kernel thread runs
// everything, an atomic operation is an ordinary one, done at once after its access is ordered.
#include <algorithm>
#include <cstring>

#include "engine/profile.h"

#define EVENT extern "C" __attribute__((visibility("default"))) void
#define SITE __builtin_return_address(0)

namespace near::manycore {

Memory memory;

namespace {

// One access within one line, in order. The clock goes on; no other fiber runs until the next event.
void access_line(uintptr_t address, size_t bytes, Access kind, const void* site) {
  Counts& counts = self->counts;
  const PageOutcome page = pages().touch(here->id, address, here->clock);
  here->clock += page.cost;
  counts.waited_address_space += page.waited;
  if (page.faulted) ++(page.huge ? counts.faults_huge : counts.faults_small);
  const Outcome outcome = memory.access(here->id, address, kind, page.node, here->clock);
  here->clock += outcome.cost;
  ++counts.by_source[static_cast<size_t>(outcome.source)];
  counts.waited_lines += outcome.waited;
  if (outcome.coherence) {
    ++counts.coherence;
    count_transfer(address, bytes, kind, outcome, site);
  }
  digest = (digest ^ address ^ here->clock) * 0x9e3779b97f4a7c15 + here->id;
}

void slow_event(uintptr_t address, size_t bytes, Access kind, const void* site) {
  for (const uintptr_t end = address + bytes; address < end;) {
    const size_t part = std::min(end - address, kLineBytes - address % kLineBytes);
    order();
    access_line(address, part, kind, site);
    address += part;
  }
}

inline void event(const volatile void* pointer, size_t bytes, Access kind, const void* site) {
  if (!simulated) return;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const bool one_line = address % kLineBytes + bytes <= kLineBytes;
  if (__builtin_expect(one_line && memory.hit(here->id, address, kind), true)) {
    ++self->counts.by_source[static_cast<size_t>(Source::kL1)];
    here->clock += here->hit;
  } else {
    slow_event(address, bytes, kind, site);
  }
  if (__builtin_expect(here->clock > limit, false)) reschedule();
}

// Before an atomic operation. Reads that hit may run ahead as plain ones do; the others are ordered.
inline void atomic_event(const volatile void* pointer, size_t bytes, Access kind,
                         const void* site) {
  if (!simulated) return;
  if (kind == Access::kRead) return event(pointer, bytes, kind, site);
  if (__builtin_expect(here->clock > limit, false)) reschedule();
  ++self->counts.atomics;
  slow_event(reinterpret_cast<uintptr_t>(pointer), bytes, kind, site);
}

}  // namespace

void access(const void* address, size_t bytes, Access kind, const void* site) {
  if (bytes == 0 || !simulated) return;
  slow_event(reinterpret_cast<uintptr_t>(address), bytes, kind, site);
}

}  // namespace near::manycore

using namespace near::manycore;

EVENT __tsan_init() {}
EVENT __sanitizer_cov_trace_pc() {
  if (!simulated) return;
  ++self->counts.blocks;
  here->clock += here->block;
}

EVENT __tsan_func_entry(void* caller) {
  if (!simulated) return;
  if (self->depth < Fiber::kFrames) self->frames[self->depth] = caller;
  ++self->depth;
}
EVENT __tsan_func_exit() {
  if (simulated && self->depth != 0) --self->depth;
}

#define PLAIN(bytes)                                                                           \
  EVENT __tsan_read##bytes(void* address) { event(address, bytes, Access::kRead, SITE); }      \
  EVENT __tsan_write##bytes(void* address) { event(address, bytes, Access::kWrite, SITE); }    \
  EVENT __tsan_volatile_read##bytes(void* address) {                                           \
    event(address, bytes, Access::kRead, SITE);                                                \
  }                                                                                            \
  EVENT __tsan_volatile_write##bytes(void* address) {                                          \
    event(address, bytes, Access::kWrite, SITE);                                               \
  }
#define UNALIGNED(bytes)                                                                       \
  EVENT __tsan_unaligned_read##bytes(void* address) {                                          \
    event(address, bytes, Access::kRead, SITE);                                                \
  }                                                                                            \
  EVENT __tsan_unaligned_write##bytes(void* address) {                                         \
    event(address, bytes, Access::kWrite, SITE);                                               \
  }                                                                                            \
  EVENT __tsan_unaligned_volatile_read##bytes(void* address) {                                 \
    event(address, bytes, Access::kRead, SITE);                                                \
  }                                                                                            \
  EVENT __tsan_unaligned_volatile_write##bytes(void* address) {                                \
    event(address, bytes, Access::kWrite, SITE);                                               \
  }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

EVENT __tsan_read_range(void* address, size_t bytes) { event(address, bytes, Access::kRead, SITE); }
EVENT __tsan_write_range(void* address, size_t bytes) {
  event(address, bytes, Access::kWrite, SITE);
}
EVENT __tsan_vptr_read(void* address) { event(address, 8, Access::kRead, SITE); }
EVENT __tsan_vptr_update(void* address, void*) { event(address, 8, Access::kWrite, SITE); }

EVENT __tsan_atomic_thread_fence(int) {
  if (!simulated) return;
  ++self->counts.atomics;
  here->clock += machine().atomic;
}
EVENT __tsan_atomic_signal_fence(int) {}

#define ATOMIC(bits, Word)                                                                       \
  extern "C" __attribute__((visibility("default"))) Word __tsan_atomic##bits##_load(             \
      const volatile Word* address, int) {                                                       \
    atomic_event(address, sizeof(Word), Access::kRead, SITE);                                    \
    return *address;                                                                             \
  }                                                                                              \
  EVENT __tsan_atomic##bits##_store(volatile Word* address, Word value, int order) {             \
    constexpr int kSequential = 5;                                                               \
    atomic_event(address, sizeof(Word),                                                          \
                 order == kSequential ? Access::kUpdate : Access::kWrite, SITE);                 \
    *address = value;                                                                            \
  }                                                                                              \
  UPDATE(bits, Word, exchange, value)                                                            \
  UPDATE(bits, Word, fetch_add, static_cast<Word>(before + value))                               \
  UPDATE(bits, Word, fetch_sub, static_cast<Word>(before - value))                               \
  UPDATE(bits, Word, fetch_and, static_cast<Word>(before & value))                               \
  UPDATE(bits, Word, fetch_or, static_cast<Word>(before | value))                                \
  UPDATE(bits, Word, fetch_xor, static_cast<Word>(before ^ value))                               \
  UPDATE(bits, Word, fetch_nand, static_cast<Word>(~(before & value)))                           \
  COMPARE(bits, Word, strong)                                                                    \
  COMPARE(bits, Word, weak)                                                                      \
  extern "C" __attribute__((visibility("default"))) Word                                         \
      __tsan_atomic##bits##_compare_exchange_val(volatile Word* address, Word expected,          \
                                                 Word desired, int, int) {                       \
    atomic_event(address, sizeof(Word), Access::kUpdate, SITE);                                  \
    const Word before = *address;                                                                \
    if (before == expected) *address = desired;                                                  \
    return before;                                                                               \
  }
#define UPDATE(bits, Word, name, after)                                                          \
  extern "C" __attribute__((visibility("default"))) Word __tsan_atomic##bits##_##name(           \
      volatile Word* address, Word value, int) {                                                 \
    atomic_event(address, sizeof(Word), Access::kUpdate, SITE);                                  \
    [[maybe_unused]] const Word before = *address;                                               \
    *address = after;                                                                            \
    return before;                                                                               \
  }
#define COMPARE(bits, Word, strength)                                                            \
  extern "C" __attribute__((visibility("default"))) int                                          \
      __tsan_atomic##bits##_compare_exchange_##strength(volatile Word* address, Word* expected,  \
                                                        Word desired, int, int) {                \
    atomic_event(address, sizeof(Word), Access::kUpdate, SITE);                                  \
    const Word before = *address;                                                                \
    if (before == *expected) {                                                                   \
      *address = desired;                                                                        \
      return 1;                                                                                  \
    }                                                                                            \
    *expected = before;                                                                          \
    return 0;                                                                                    \
  }

__extension__ using Wide = unsigned __int128;
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
ATOMIC(128, Wide)
