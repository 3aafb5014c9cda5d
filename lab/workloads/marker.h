// The instructions by which a program in a guest passes data to the counting plugin
// (vm/plugin).
//
// On a real processor they have no effect: they are a NOP and comparisons of bytes. x86-64 only.
// Invariant: both bytes of a marker with parameters can be read; a page fault on them is harmless.
// Thread-safety: any thread; a marker applies to the CPU that executes it.
#pragma once

#include "marker_code.h"

namespace workload::marker {

// A number is passed as the address of its byte.
alignas(nearcount::kNumbers) inline constexpr char kNumberBytes[nearcount::kNumbers] = {};

template <nearcount::Marker kind>
inline void say() {
  constexpr unsigned displacement = nearcount::kMagic + static_cast<unsigned>(kind);
  asm volatile(".byte 0x0f, 0x1f, 0x80\n\t.long %c0" : : "i"(displacement) : "memory");
}

template <nearcount::Marker kind>
inline void pass(const void* first, const void* second) {
  constexpr unsigned prefixes = nearcount::prefixes_of(kind);
  asm volatile(".fill %c2, 1, 0x3e\n\t.byte 0xa6"
               : "+D"(first), "+S"(second)
               : "i"(prefixes)
               : "cc", "memory");
}

inline const void* number(size_t value) { return kNumberBytes + value % nearcount::kNumbers; }

// Tells the plugin that a program to be measured starts.
inline void program() { say<nearcount::Marker::kProgram>(); }
inline void begin() { say<nearcount::Marker::kBegin>(); }
inline void end() { say<nearcount::Marker::kEnd>(); }
// The pages of these two bytes and all pages between them are not heap.
inline void exclude(const void* first, const void* last) {
  pass<nearcount::Marker::kExclude>(first, last);
}
inline void include(const void* first, const void* last) {
  pass<nearcount::Marker::kInclude>(first, last);
}
// This byte's page is on that node.
inline void calibrate(const void* byte, size_t node) {
  pass<nearcount::Marker::kCalibrate>(byte, number(node));
}
// This thread runs on that CPU, which belongs to that node.
inline void here(size_t cpu, size_t node) {
  pass<nearcount::Marker::kHere>(number(cpu), number(node));
}

}  // namespace workload::marker
