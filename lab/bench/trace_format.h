// The file of a recorded malloc trace; written by record.c, read by workloads/trace_reader.cc.
//
// A file is a TraceHeader and events, one process a file. All integers of the header are
// little-endian; a varint has seven bits a byte, the lowest first, all bytes but the last with bit
// 7 set; a signed one is zigzag-coded (0, -1, 1, -2, ...). An event is
//   a byte          its kind, with kTraceOtherThread when it is another thread's than the last
//   [varint         that thread's number, from 0, in order of first appearance]
//   varint          ns since the last event
//   and, by kind    kTraceMalloc, kTraceCalloc, kTraceResized: varint size, signed address
//                   kTraceAligned: varint alignment, varint size, signed address
//                   kTraceFree, kTraceResize: signed address
//                   kTraceEnd: varint number of events before it; the file ends behind it
// where an address is its difference to the last address of the file. The first event is thread
// 0's unless it says otherwise, the first difference is to 0. A realloc is two events of its
// thread: kTraceResize with the old block before the call, kTraceResized with the new one after it
// (address 0: it failed, the old block lives on).
// Invariant: events are in an order in which they may have happened: an allocation stands behind
// the call that made it, a free before its call. A kind of 0 where an event should begin is the
// end of a process that ended without its exit handlers (killed, _exit, exec); a file that ends in
// any other way was cut. Thread-safety: the writer alone while its process lives.
#pragma once

#include <stdint.h>

#define TRACE_MAGIC "NEARTRC"

enum { kTraceVersion = 1, kTraceOtherThread = 0x80 };

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

struct TraceHeader {
  char magic[8];
  uint32_t version;
  uint32_t process;
};
