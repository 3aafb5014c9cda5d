#include "profile/known_rules.h"

#include <cstring>

#include "base/atomic.h"
#include "platform/clock.h"

namespace near::profile {
namespace {

struct Entry {
  uintptr_t pc;
  uint32_t number : 24;  // of the function in its table
  uint32_t period : 8;   // in which the entry was tested
  uint16_t digest;       // of its description; 0: the entry is free
  ShortRules rules;
};
struct Pair {
  Entry entries[2];  // the newer one first
};
constexpr size_t kPairs = KnownRules::kBytesOfRules / sizeof(Pair);

constinit Atomic<bool> taken{false};
static_assert(Registers::kCount <= ShortRules::kNoTable);
constinit Pair pairs[kPairs] = {};  // guard: taken
constinit uint8_t period = 0;       // guard: taken
constinit uint64_t began_ms = 0;    // the period; guard: taken

// Of the threads that took a sample last.
struct KnownStack {
  Registers::Readable readable;
  uint8_t period;
};
constexpr size_t kStacks = 16;
constinit KnownStack stacks[kStacks] = {};  // guard: taken

static_assert(sizeof taken + sizeof pairs + sizeof period + sizeof began_ms + sizeof stacks <=
              KnownRules::kBytes);

constexpr uint64_t kOdd = 0x9e37'79b9'7f4a'7c15;

// Stacks of threads lie some megabytes apart.
KnownStack& stack_of(uintptr_t place) {
  constexpr unsigned kBytesLog = 20;
  return stacks[((place >> kBytesLog) * kOdd >> 32) % kStacks];
}

Pair& pair_of(uintptr_t pc) { return pairs[(uint64_t{pc} * kOdd >> 32) % kPairs]; }

template <typename T>
T take(const uint8_t*& at) {
  T value;
  memcpy(&value, at, sizeof value);
  at += sizeof value;
  return value;
}

// Of the place and all bytes of a description, whose length is a multiple of 4; 0 if it is long or
// has another form.
uint16_t digest_of(const uint8_t* description) {
  constexpr uint32_t kMost = 1024;
  const uint8_t* at = description;
  const auto bytes = take<uint32_t>(at);
  if (bytes > kMost) return 0;
  uint64_t digest = reinterpret_cast<uintptr_t>(description) ^ bytes;
  const auto add = [&digest](uint64_t word) {
    digest = (digest ^ word) * kOdd;
    digest ^= digest >> 32;
  };
  const uint8_t* const end = at + bytes;
  while (static_cast<size_t>(end - at) >= sizeof(uint64_t)) add(take<uint64_t>(at));
  if (static_cast<size_t>(end - at) >= sizeof(uint32_t)) add(take<uint32_t>(at));
  return static_cast<uint16_t>(digest | 1);
}

// False if they do not fit.
bool shorten(const Rules& rules, ShortRules& out) {
  constexpr auto kWord = static_cast<int32_t>(sizeof(uintptr_t));
  out = {};
  out.cfa_offset = static_cast<int16_t>(rules.cfa_offset);
  out.cfa_register = rules.cfa_register & 0x3f;
  out.cfa_is_stored = rules.cfa_is_stored;
  out.has_no_caller = rules.of[Registers::kReturn].kind == Rule::Kind::undefined;
  if (out.cfa_offset != rules.cfa_offset || rules.cfa_register >= Registers::kCount) return false;
  if (rules.return_register != Registers::kReturn) return false;
  Rule other[Registers::kCount];
  memcpy(other, rules.of, sizeof other);
  for (unsigned i = 0; i < std::size(Registers::kKept); i++) {
    Rule& rule = other[Registers::kKept[i]];
    if (rule.kind != Rule::Kind::stored) continue;
    out.stored[i] = static_cast<int8_t>(rule.offset / kWord);
    if (out.stored[i] == 0 || out.stored[i] * kWord != rule.offset) return false;
    rule.kind = Rule::Kind::same;
  }
  for (const Rule& rule : other) {
    if (rule.kind == Rule::Kind::stored || rule.kind == Rule::Kind::in_register) return false;
  }
  return true;
}

// No entry was tested in period 0.
void begin_period(uint64_t now_ms) {
  began_ms = now_ms;
  period++;
  if (period != 0) return;
  for (Pair& pair : pairs) {
    for (Entry& entry : pair.entries) entry.period = 0;
  }
  for (KnownStack& stack : stacks) stack.period = 0;
  period = 1;
}

}  // namespace

KnownRules::KnownRules(uint64_t now_ms)
    : taken_(!taken.exchange(true, kAcquire)) {  // pairs: known-rules
  if (taken_ && (period == 0 || is_old(now_ms, began_ms, kTrustMs))) begin_period(now_ms);
}

KnownRules::~KnownRules() {
  if (taken_) taken.store(false, kRelease);  // pairs: known-rules
}

const ShortRules* KnownRules::find_tested(uintptr_t pc) const {
  if (!taken_) return nullptr;
  for (const Entry& entry : pair_of(pc).entries) {
    if (entry.pc == pc && entry.period == period) return &entry.rules;
  }
  return nullptr;
}

const ShortRules* KnownRules::find(uintptr_t pc, const SearchTable& table) const {
  if (!taken_) return nullptr;
  for (Entry& entry : pair_of(pc).entries) {
    if (entry.pc != pc || entry.digest == 0 || !table.finds(entry.number, pc)) continue;
    if (digest_of(table.description(entry.number)) != entry.digest) continue;
    entry.period = period;
    return &entry.rules;
  }
  return nullptr;
}

void KnownRules::add(uintptr_t pc, const SearchTable& table, uint32_t number, const Rules& rules) {
  ShortRules found;
  if (shorten(rules, found)) add(pc, table, number, found);
}

void KnownRules::add_unknown(uintptr_t pc, const SearchTable& table, uint32_t number) {
  ShortRules unknown{};
  unknown.cfa_register = ShortRules::kNoTable;
  add(pc, table, number, unknown);
}

void KnownRules::add(uintptr_t pc, const SearchTable& table, uint32_t number,
                     const ShortRules& rules) {
  constexpr uint32_t kNumbers = 1U << 24;
  if (!taken_ || number >= kNumbers) return;
  const uint16_t digest = digest_of(table.description(number));
  if (digest == 0) return;
  Pair& pair = pair_of(pc);
  if (pair.entries[0].pc != pc) pair.entries[1] = pair.entries[0];
  pair.entries[0] = {pc, number % kNumbers, period, digest, rules};
}

void KnownRules::trust_stack(Registers& registers) const {
  if (!taken_) return;
  const KnownStack& known = stack_of(registers.stack());
  if (known.period == period && known.readable.has(registers.stack())) {
    registers.readable = known.readable;
  }
}

void KnownRules::keep_stack(const Registers& registers) const {
  if (!taken_) return;
  stack_of(registers.readable.start) = {registers.readable, period};
}

void KnownRules::give_back_in_child() {
  if (!taken.load(kRelaxed)) return;  // relaxed: the child has one thread
  memset(pairs, 0, sizeof pairs);
  memset(stacks, 0, sizeof stacks);
  taken.store(false, kRelaxed);  // relaxed: as above
}

}  // namespace near::profile
