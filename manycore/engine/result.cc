// Writes the result of a run as JSON, without allocating: the process's malloc is the subject.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "engine/description.h"
#include "engine/host.h"
#include "engine/profile.h"

namespace near::manycore {

uint64_t host_nanoseconds();

namespace {

// JSON text in a buffer that goes to a file.
class Writer {
 public:
  explicit Writer(int file) : file_(file) {}

  void begin(char bracket, const char* name = nullptr) {
    item(name);
    put(bracket);
    first_ = true;
  }
  void end(char bracket) {
    put(bracket);
    first_ = false;
  }
  void number(const char* name, uint64_t value) {
    item(name);
    print("%lu", static_cast<unsigned long>(value));
  }
  // Picoseconds, written as nanoseconds.
  void time(const char* name, Time value) {
    item(name);
    print("%lu.%03lu", static_cast<unsigned long>(value / kNanosecond),
          static_cast<unsigned long>(value % kNanosecond));
  }
  void text(const char* name, const char* value) {
    item(name);
    string(value);
  }
  void address(const char* name, uintptr_t value) {
    item(name);
    print("\"0x%lx\"", static_cast<unsigned long>(value));
  }
  void flush() {
    for (size_t done = 0; done < used_;) {
      const ssize_t wrote = write(file_, buffer_ + done, used_ - done);
      if (wrote <= 0) break;
      done += static_cast<size_t>(wrote);
    }
    used_ = 0;
  }

 private:
  void item(const char* name) {
    if (!first_) put(',');
    first_ = false;
    if (name == nullptr) return;
    string(name);
    put(':');
  }
  void string(const char* value) {
    put('"');
    for (; *value != 0; ++value) {
      if (*value == '"' || *value == '\\') put('\\');
      if (static_cast<unsigned char>(*value) >= ' ') put(*value);
    }
    put('"');
  }
  __attribute__((format(printf, 2, 3))) void print(const char* format, ...) {
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (const char* c = text; *c != 0; ++c) put(*c);
  }
  void put(char c) {
    if (used_ == sizeof buffer_) flush();
    buffer_[used_++] = c;
  }

  const int file_;
  bool first_ = true;
  size_t used_ = 0;
  char buffer_[1 << 14];
};

constexpr const char* kSourceNames[] = {"l1",           "l2",            "l3",          "memory_local",
                                        "memory_remote", "transfer_near", "transfer_far"};
static_assert(std::size(kSourceNames) == kSources);

void write_counts(Writer& out, const Counts& counts) {
  for (size_t i = 0; i < kSources; ++i) out.number(kSourceNames[i], counts.by_source[i]);
  Counts::each([&](const char* name, uint64_t Counts::*member) {
    if (std::strncmp(name, "waited_", 7) == 0) {
      out.time(name, counts.*member);
    } else {
      out.number(name, counts.*member);
    }
  });
}

void write_sites(Writer& out, const char* name, const void* const (&sites)[kCallers]) {
  out.begin('[', name);
  for (const void* site : sites) {
    if (site != nullptr) out.address(nullptr, reinterpret_cast<uintptr_t>(site));
  }
  out.end(']');
}

void write_part(Writer& out, const Part& part) {
  static constexpr const char* kKinds[] = {"read", "write", "update"};
  out.begin('{');
  out.number("offset", part.offset);
  out.number("bytes", part.bytes);
  out.text("kind", kKinds[static_cast<int>(part.kind)]);
  out.number("count", part.count);
  out.time("waited", part.waited);
  write_sites(out, "sites", part.site);
  out.begin('[', "processors");
  for (unsigned i = 0; i < machine().processors; ++i) {
    if (part.processors.has(i)) out.number(nullptr, i);
  }
  out.end(']');
  out.end('}');
}

void write_line(Writer& out, const ContendedLine& line) {
  const uintptr_t begin = (line.key - 1) * kLineBytes;
  out.begin('{');
  out.address("address", begin);
  out.number("transfers_near", line.near);
  out.number("transfers_far", line.far);
  out.time("waited", line.waited);
  out.time("waited_allocator", line.waited_allocator);
  out.begin('[', "parts");
  for (unsigned i = 0; i < line.part_count; ++i) write_part(out, line.parts[i]);
  out.end(']');
  out.begin('[', "blocks");
  each_block(begin, kLineBytes, [&](const Block& block) {
    out.begin('{');
    out.address("address", (block.key - 1) * kGranule);
    out.number("bytes", block.bytes);
    write_sites(out, "sites", block.site);
    out.end('}');
  });
  out.end(']');
  out.end('}');
}

void write_lock(Writer& out, const LockProfile& lock) {
  out.begin('{');
  out.address("address", lock.key);
  out.text("kind", lock.kind);
  out.number("taken", lock.taken);
  out.number("contended", lock.contended);
  out.time("waited", lock.waited);
  out.time("waited_allocator", lock.waited_allocator);
  out.address("site", reinterpret_cast<uintptr_t>(lock.site));
  out.end('}');
}

// Writes the entries that were waited for most.
template <typename Entry, typename Write>
void write_most(Writer& out, const char* name, const Table<Entry>& table, Write write) {
  const size_t most = description().report_lines;
  auto** const best = static_cast<const Entry**>(reserve((most + 1) * sizeof(Entry*)));
  size_t count = 0;
  table.each([&](const Entry& entry) {
    size_t place = count;
    const auto less = [&](const Entry& a, const Entry& b) {
      return a.waited != b.waited ? a.waited < b.waited : a.key > b.key;
    };
    for (; place > 0 && less(*best[place - 1], entry); --place) best[place] = best[place - 1];
    best[place] = &entry;
    count = std::min(count + 1, most);
  });
  out.begin('[', name);
  for (size_t i = 0; i < count; ++i) write(out, *best[i]);
  out.end(']');
}

void write_calls(Writer& out) {
  out.begin('[', "calls");
  for (unsigned i = 0; i < call_count; ++i) {
    out.begin('{');
    out.text("name", calls[i].name);
    out.number("count", calls[i].count);
    out.time("ns", calls[i].cost);
    out.time("waited", calls[i].waited);
    out.end('}');
  }
  out.end(']');
}

void write_regions(Writer& out) {
  out.begin('[', "regions");
  for (unsigned i = 0; i < region_count; ++i) {
    out.begin('{');
    out.text("name", regions[i].name);
    out.number("entered", regions[i].entered);
    write_counts(out, regions[i].counts);
    out.end('}');
  }
  out.end(']');
}

// The mappings of files, from which the driver finds symbols.
void write_modules(Writer& out) {
  static char text[1 << 16];
  size_t length = 0;
  const int file = static_cast<int>(host_call(SYS_openat, AT_FDCWD, word("/proc/self/maps"), O_RDONLY));
  for (ssize_t got = 1; file >= 0 && got > 0; length += static_cast<size_t>(got)) {
    got = read(file, text + length, sizeof text - 1 - length);
    if (got < 0) break;
  }
  text[length] = 0;
  out.begin('[', "modules");
  for (char* line = std::strtok(text, "\n"); line != nullptr; line = std::strtok(nullptr, "\n")) {
    unsigned long begin = 0, end = 0, offset = 0;
    char path[512] = {};
    if (std::sscanf(line, "%lx-%lx %*s %lx %*s %*s %511[^\n]", &begin, &end, &offset, path) != 4 ||
        path[0] != '/') {
      continue;
    }
    out.begin('{');
    out.address("begin", begin);
    out.address("end", end);
    out.number("offset", offset);
    out.text("path", path);
    out.end('}');
  }
  out.end(']');
}

void write_all(Writer& out, const char* ended) {
  Counts all{};
  Time last = 0;
  each_fiber([&](const Fiber& fiber) { all.add(fiber.counts, {}); });
  last = here->clock;
  uint64_t events = all.atomics + all.blocks;
  for (const uint64_t count : all.by_source) events += count;
  out.begin('{');
  out.number("format", 1);
  out.text("ended", ended);
  out.text("machine", machine().name);
  out.number("seed", description().seed);
  out.number("processors", online());
  out.number("threads", fiber_count);
  out.time("virtual_ns", last);
  out.number("host_ns", host_nanoseconds());
  out.number("events", events);
  out.address("digest", digest ^ last);
  out.number("rss_peak_bytes", pages().most_present_bytes());
  if (measured.ended) {
    out.begin('{', "measured");
    out.time("ns", measured.time);
    out.number("present_begin", measured.present_begin);
    out.number("present_end", measured.present_end);
    out.end('}');
  }
  out.begin('{', "counts");
  write_counts(out, counts_of_run());
  out.end('}');
  write_calls(out);
  write_most(out, "lines", lines, write_line);
  write_most(out, "locks", locks, write_lock);
  write_regions(out);
  write_modules(out);
  out.end('}');
}

}  // namespace

void finish(const char* ended) {
  static bool done = false;
  if (done) return;
  done = true;
  const Unsimulated unsimulated;
  const int file = static_cast<int>(host_call(SYS_openat, AT_FDCWD, word(description().result),
                                              O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file < 0) fail("cannot write the result %s", description().result);
  static Writer out(file);  // its buffer is too large for a small stack
  write_all(out, ended);
  out.flush();
  close(file);
}

}  // namespace near::manycore
