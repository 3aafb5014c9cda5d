// SuperMalloc and its family: one implementation in six variants, which differ only by
// policies and constants. [Kuszmaul15; Kim23 §2.2.4, §4]
// Thread-safety: constants; the switches are written at start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "designs/shared/switches.h"

namespace near::design::super {

// How many blocks the global cache gets when it is empty. [Kim23 §4.2.2, §4.3]
enum class Fill : uint8_t {
  one,       // one block is allocated, for the request
  half,      // blocks for half of its lists, under one lock hold
  doubling,  // 1 block, then 2, 4, ... up to half of its lists
};

struct Variant {
  const char* name;
  Fill fill = Fill::one;
  bool drain = false;        // a full global cache is freed down to half
  bool equal_lists = false;  // the lists of all levels have one size, and move whole
  bool per_socket = false;   // a level between processors and the global cache
};

inline constexpr Variant kSuper0{.name = "super0"};
inline constexpr Variant kSuper1{.name = "super1", .fill = Fill::half};
inline constexpr Variant kSuper2{.name = "super2", .fill = Fill::half, .drain = true};
inline constexpr Variant kSuper3{.name = "super3", .equal_lists = true};
inline constexpr Variant kSuper4{.name = "super4", .fill = Fill::half, .equal_lists = true};
inline constexpr Variant kSuperSocket{.name = "supersocket",
                                      .fill = Fill::doubling,
                                      .drain = true,
                                      .equal_lists = true,
                                      .per_socket = true};

// The build defines which of them is compiled.
inline constexpr Variant kVariant = NEAR_DESIGN_VARIANT;

// The constants of a run.
struct Settings {
  unsigned processors = 1;       // P
  size_t thread_list_bytes = 0;  // in each of a thread's two lists
  size_t list_bytes = 0;         // in a list of every other level
  unsigned cpu_lists = 0;        // in one processor's cache
  unsigned socket_lists = 0;     // P_S
  unsigned global_lists = 0;
  Fill fill = Fill::one;
  bool drain = false;
  bool thread_cache = true;
  bool unmap_huge = true;     // a huge block's memory goes back when it is freed
  bool transactions = false;  // critical sections are tried as hardware transactions
};
extern Settings settings;

std::span<Switch> switches();

// Effect: `settings` follow from the switches and the machine.
void apply_switches();

}  // namespace near::design::super
