// The instructions that a guest program uses to call the plugin. On a processor they do nothing.
//
// begin, end, program: a long NOP whose displacement is kMagic plus the kind.
// exclude, include, calibrate, here: these have two parameters, the addresses of two bytes; a
// string comparison reads both (first RDI's, then RSI's); the number of its DS prefixes gives the
// kind. It is one instruction, so no interrupt, page fault or migration separates a marker from its
// parameters. A number n < kNumbers is passed as an address with n in its lowest bits.
//
// Invariant: no compiler emits either. Thread-safety: lab/workloads/marker.h and the plugin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace nearcount {

enum class Marker : uint8_t {
  kNone,
  kProgram,    // a program that will be measured starts: no range is excluded yet
  kBegin,      // from here on accesses are counted
  kEnd,        // counting stops; the counts are written
  kExclude,    // (first byte, last byte) of a range that is not heap
  kInclude,    // (first byte, last byte) of a range that may be heap again
  kCalibrate,  // (a byte of a page, the number of its node)
  kHere,       // (the number of the CPU that executes it, the number of its node)
};

constexpr uint32_t kMagic = 0x6e656100;
constexpr size_t kNumbers = 4096;
constexpr unsigned kFewestPrefixes = 3;  // the number for kExclude; each next kind has one more

constexpr unsigned prefixes_of(Marker marker) {
  return static_cast<unsigned>(marker) - static_cast<unsigned>(Marker::kExclude) + kFewestPrefixes;
}

constexpr bool has_parameters(Marker marker) { return marker >= Marker::kExclude; }

inline Marker decode_nop(const uint8_t* code, size_t size) {
  constexpr uint8_t kLongNop[] = {0x0f, 0x1f, 0x80};
  uint32_t displacement = 0;
  if (size != sizeof kLongNop + sizeof displacement) return Marker::kNone;
  if (std::memcmp(code, kLongNop, sizeof kLongNop) != 0) return Marker::kNone;
  std::memcpy(&displacement, code + sizeof kLongNop, sizeof displacement);
  const uint32_t kind = displacement - kMagic;
  const bool known = kind >= static_cast<uint32_t>(Marker::kProgram) &&
                     kind <= static_cast<uint32_t>(Marker::kEnd);
  return known ? static_cast<Marker>(kind) : Marker::kNone;
}

inline Marker decode_comparison(const uint8_t* code, size_t size) {
  constexpr uint8_t kDataSegment = 0x3e, kCompareBytes = 0xa6;
  if (size <= kFewestPrefixes || size > prefixes_of(Marker::kHere) + 1) return Marker::kNone;
  if (code[size - 1] != kCompareBytes) return Marker::kNone;
  for (size_t i = 0; i + 1 < size; ++i) {
    if (code[i] != kDataSegment) return Marker::kNone;
  }
  return static_cast<Marker>(size - 1 - kFewestPrefixes + static_cast<size_t>(Marker::kExclude));
}

inline Marker decode(const uint8_t* code, size_t size) {
  const Marker marker = decode_nop(code, size);
  return marker != Marker::kNone ? marker : decode_comparison(code, size);
}

}  // namespace nearcount
