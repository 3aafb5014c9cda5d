// Writes pprof's format: perftools.profiles.Profile, a message of protocol buffers, without the
// compression that pprof does not need. [github.com/google/pprof/blob/main/proto/profile.proto]
//
// A message's fields may come in any order, so the parts are written as they are found: samples,
// then the locations and mappings that they name. Only the strings are in the order of their
// numbers.
#include "profile/modules.h"
#include "profile/profiler.h"
#include "profile/protobuf.h"
#include "profile/write.h"

namespace near::profile {
namespace {

// The fields of Profile.
enum : unsigned {
  kSampleType = 1,
  kSample = 2,
  kMapping = 3,
  kLocation = 4,
  kStringTable = 6,
  kDropFrames = 7,
  kTimeNanos = 9,
  kDurationNanos = 10,
  kPeriodType = 11,
  kPeriod = 12,
  kComment = 13,
  kDefaultSampleType = 14,
};

// The strings in the order of their numbers; those of modules follow.
enum : unsigned { kEmpty, kCount, kBytes, kSpace, kDropped, kNote, kFirstType };
constexpr unsigned kTypes = 8;
constexpr const char* kTypeNames[kTypes] = {
    "alloc_objects", "alloc_space", "inuse_objects", "inuse_space",
    "peak_space",    "freed_space", "remote_space",  "waste_space",
};
constexpr unsigned kInuseSpace = 3;
constexpr unsigned kFirstModule = kFirstType + kTypes;

void put_field(Sink& out, unsigned field, const Message& message) {
  Message whole;
  whole.message(field, message);
  out.write(whole.data(), whole.size());
}

// If one string were omitted, all later ones would have wrong numbers.
void put_text(Sink& out, const char* words) {
  Message head;
  head.begin(kStringTable, strlen(words));
  out.write(head.data(), head.size());
  out.text(words);
}

void put_strings(Sink& out, const Modules& modules, const Summary& found) {
  for (const char* each : {"", "count", "bytes", "space"}) put_text(out, each);
  put_text(
      out,
      "near::.*|malloc|calloc|realloc|reallocarray|aligned_alloc|posix_memalign|operator new.*");
  char note[200];
  snprintf(
      note, sizeof note, "nearmalloc: %lu samples, %lu of them without a stack, %lu not followed",
      static_cast<unsigned long>(found.samples), static_cast<unsigned long>(found.dropped_stacks),
      static_cast<unsigned long>(found.dropped_blocks));
  put_text(out, note);
  for (const char* each : kTypeNames) put_text(out, each);
  for (size_t i = 0; i < modules.count(); i++) {
    char build_id[41];
    Modules::print_build_id(modules[i], build_id);
    put_text(out, modules[i].name);
    put_text(out, build_id);
  }
}

void put_types(Sink& out) {
  for (unsigned i = 0; i < kTypes; i++) {
    Message type;
    type.number(1, kFirstType + i);
    type.number(2, strstr(kTypeNames[i], "objects") != nullptr ? kCount : kBytes);
    put_field(out, kSampleType, type);
  }
}

// Numbers of addresses that samples name. To look at all places of the profiler's table of
// addresses would make its pages resident.
class Named {
 public:
  void add(uint32_t number) { words_[number / 64] |= uint64_t{1} << number % 64; }
  bool has(uint32_t number) const { return (words_[number / 64] >> number % 64 & 1) != 0; }

 private:
  uint64_t words_[(Table::kAddresses + 63) / 64] = {};
};

void put_sample(Sink& out, const SiteCopy& copy, Named& named) {
  Message locations;
  for (unsigned i = 0; i < copy.site.depth; i++) {
    locations.element(copy.numbers[i] + 1);
    named.add(copy.numbers[i]);
  }
  const Site& site = copy.site;
  const uint64_t values[kTypes] = {site.allocated.whole_blocks(),
                                   site.allocated.bytes,
                                   site.live.whole_blocks(),
                                   site.live.bytes,
                                   site.peak.bytes,
                                   site.freed.bytes,
                                   site.remote.bytes,
                                   site.waste};
  Message numbers;
  for (const uint64_t value : values) numbers.element(value);
  Message sample;
  sample.message(1, locations);
  sample.message(2, numbers);
  put_field(out, kSample, sample);
}

void put_modules(Sink& out, const Modules& modules) {
  for (size_t i = 0; i < modules.count(); i++) {
    Message mapping;
    mapping.number(1, i + 1);
    mapping.number(2, modules[i].start);
    mapping.number(3, modules[i].end);
    mapping.number(4, modules[i].offset);
    mapping.number(5, kFirstModule + 2 * i);
    mapping.number(6, kFirstModule + 2 * i + 1);
    put_field(out, kMapping, mapping);
  }
}

// pprof wants addresses of calls, and these are of returns.
void put_locations(Sink& out, const Modules& modules, const Named& named) {
  for (uint32_t number = 0; number < Table::kAddresses; number++) {
    if (!named.has(number)) continue;
    const uintptr_t address = frame_address(number);
    const size_t module = modules.find(address - 1);
    Message location;
    location.number(1, number + 1);
    location.number(2, module < modules.count() ? module + 1 : 0);
    location.number(3, address - 1);
    put_field(out, kLocation, location);
  }
}

}  // namespace

void write_pprof(Sink& out) {
  const Modules modules;
  const Summary found = summary();
  put_types(out);
  SiteCopy copy;
  Named named;
  for (uint32_t i = 0; copy_site(i, copy); i++) {
    if (copy.site.samples > 0) put_sample(out, copy, named);
  }
  put_modules(out, modules);
  put_locations(out, modules, named);
  put_strings(out, modules, found);
  Message period;
  period.number(1, kSpace);
  period.number(2, kBytes);
  put_field(out, kPeriodType, period);
  Message rest;
  rest.number(kDropFrames, kDropped);
  rest.number(kTimeNanos, found.started_at * 1'000'000'000);
  rest.number(kDurationNanos, (found.stopped_ms - found.started_ms) * 1'000'000);
  rest.number(kPeriod, found.mean);
  rest.number(kComment, kNote);
  rest.number(kDefaultSampleType, kFirstType + kInuseSpace);
  out.write(rest.data(), rest.size());
}

}  // namespace near::profile
