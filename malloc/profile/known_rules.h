// The rules of return addresses that were found before. Most stacks have callers in common, and to
// find the rules of one address anew, a search and the program in a description must be executed.
//
// An entry is valid only while the tables lead to the same description: so code that was loaded in
// the place of other code gets its own rules. That is tested once in a period of kTrustMs, because
// the tables are seldom in the processor's cache: a stack may be wrong if a program replaces code
// within a period. An address has a pair of entries, where the last two that belong there stay.
// What a compiler seldom writes is not kept.
//
// The pages of a stack that were found readable are kept for a period as well, because a test is a
// system call. Tables lead to the part of the stack that is in use.
// Invariant: only the thread that took the rules reads or writes an entry. A thread that finds them
// taken goes without: no thread waits, so a handler may ask.
// Part of the profiler's own memory (profiler.h, kMostOwnBytes).
// Thread-safety: any thread makes a KnownRules; it belongs to that thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "profile/cfi.h"
#include "profile/search_table.h"

namespace near::profile {

// Rules in few bytes: registers of Registers::kKept are where they were, or on the stack.
struct ShortRules {
  static constexpr uint8_t kNoTable = 0x3f;  // in place of a register: no table has the code

  int16_t cfa_offset;
  uint8_t cfa_register : 6;
  bool cfa_is_stored : 1;
  bool has_no_caller : 1;                      // the outermost function
  int8_t stored[std::size(Registers::kKept)];  // words from the frame address; 0: where it was
};

class KnownRules {
 public:
  static constexpr size_t kBytesOfRules = size_t{12} * 1024;
  static constexpr size_t kBytes = kBytesOfRules + 512;  // with what is known of stacks
  static constexpr uint64_t kTrustMs = 100;

  explicit KnownRules(uint64_t now_ms);
  ~KnownRules();
  KnownRules(const KnownRules&) = delete;
  KnownRules& operator=(const KnownRules&) = delete;

  // The rules at the address, if they were tested in this period; else null.
  const ShortRules* find_tested(uintptr_t pc) const;
  // The rules at the address, which lies in code that has the table; null if none are kept.
  const ShortRules* find(uintptr_t pc, const SearchTable& table) const;
  // Keeps them; `number` is that of the function in the table.
  void add(uintptr_t pc, const SearchTable& table, uint32_t number, const Rules& rules);
  // Keeps that the function does not hold the address, nor does any other one of the table.
  void add_unknown(uintptr_t pc, const SearchTable& table, uint32_t number);

  // Takes the pages of the calling thread's stack for readable that a walk read in this period.
  void trust_stack(Registers& registers) const;
  // Keeps those that the walk read.
  void keep_stack(const Registers& registers) const;

  // Called in a child of fork: a thread that it does not have may have taken the rules.
  static void give_back_in_child();

 private:
  void add(uintptr_t pc, const SearchTable& table, uint32_t number, const ShortRules& rules);

  bool taken_;
};

}  // namespace near::profile
