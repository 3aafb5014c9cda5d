// The file of a recorded malloc trace; written by record.c, read by workloads/trace_reader.cc.
//
// A file has a TraceHeader and the events of one process. All integers of the header are
// little-endian. A varint has seven bits in a byte, the lowest first; bit 7 is set in all bytes
// except the last. A signed varint is zigzag-coded (0, -1, 1, -2, ...). An event is
//   a byte          its kind, with kTraceOtherThread if the last event is another thread's
//   [varint         that thread's number, from 0, in order of first appearance]
//   varint          ns since the last event
//   and, by kind    kTraceMalloc, kTraceCalloc, kTraceResized: varint size, signed address
//                   kTraceAligned: varint alignment, varint size, signed address
//                   kTraceFree, kTraceResize: signed address
//                   kTraceEnd: varint number of events before it; the file ends behind it
// where an address is coded as its difference to the previous address of the file. The first
// event is thread 0's unless it says otherwise; the first difference is to 0. A realloc is two
// events of its thread: kTraceResize with the old block before the call, kTraceResized with the new
// block after it (address 0: it failed, and the old block stays live).
// `process` and `started` (in ticks since the boot, 0: unknown) identify the process; exec changes
// neither, so a program that takes the place of another finds the file of its own process.
// Invariant: events are in a possible order of execution: an allocation is recorded after its call,
// a free before its call. A kind of 0 at the start of an event means that the process ended without
// its exit handlers (killed, _exit, exec); a file that ends in any other way was cut.
// FILE.stacks is a table of kTraceStacks TraceStacks: how often and how much each call stack
// allocated. An unused entry has no calls; entry 0 has no frames. Behind the table is the text of
// /proc/self/maps: of the process's end or, if it ran no exit handlers, of the first allocation.
// Thread-safety: only the writer while its process lives.
#pragma once

#include <stdint.h>

#define TRACE_MAGIC "NEARTRC"

enum { kTraceVersion = 2, kTraceOtherThread = 0x80, kTraceFrames = 14, kTraceStacks = 1 << 16 };

enum TraceKind {
  kTraceNothing,
  kTraceMalloc,
  kTraceCalloc,
  kTraceAligned,
  kTraceFree,
  kTraceResize,
  kTraceResized,
  kTraceEnd,
};

struct TraceStack {
  uint64_t calls, bytes;
  void* frames[kTraceFrames];  // return addresses, innermost first, the recorder's own included
};

struct TraceHeader {
  char magic[8];
  uint32_t version;
  uint32_t process;
  uint64_t started;
};
