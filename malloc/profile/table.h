// The profiler's own memory: sites, the frames of their stacks, and the live sampled blocks, found
// by address.
//
// All of it is one mapping of a fixed size, made at the first start and kept. When a part is full,
// what comes is counted as dropped: a block of an unknown stack counts for a site without frames,
// and a block for which there is no room is counted as allocated and not followed.
// Invariant: each live sample is in one chain of `by_address_`; each site is in `by_hash_`, and
// sites never leave until the next start.
// Thread-safety: the caller holds the profiler's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profile/site.h"

namespace near::profile {

struct Sample {
  uintptr_t address;
  uint64_t size;   // bytes asked for
  uint64_t block;  // bytes of the block
  Weight weight;
  uint64_t when;    // nanoseconds
  uint32_t site;    // kNone: it was sampled before the last start
  uint32_t heap;    // of the thread that allocated it
  uint32_t next;    // in its chain, or in the list of free ones
  uint32_t node;    // of the block
  double variance;  // of weight.bytes
};

class Table {
 public:
  static constexpr size_t kBytes = 1 << 20;

  // Maps the memory. False if the system refuses. Later calls forget all sites; live samples stay,
  // without a site.
  bool reset();

  // The site of a stack. Site 0 stands for all stacks that have no room.
  uint32_t find_site(const uintptr_t* frames, unsigned depth);
  Site& site(uint32_t index) { return sites_[index]; }
  uint32_t number_of(const Site& site) const { return static_cast<uint32_t>(&site - sites_); }
  uint32_t site_count() const { return site_count_; }
  uintptr_t frame(uint32_t place) const { return addresses_[frames_[place]]; }

  // A sample of the address; null if there is no room.
  Sample* add(uintptr_t address);
  // Takes a sample out and copies it to `out`. False if there is none of that address.
  bool remove(uintptr_t address, Sample& out);
  // The sample of a number below kSamples; its address is 0 if it is not live.
  const Sample& sample(uint32_t number) const { return samples_[number]; }
  bool has_room() const { return free_samples_ != kNone; }

  uint32_t live_samples() const { return live_samples_; }
  uint64_t dropped_stacks() const { return dropped_stacks_; }
  const void* start() const { return memory_; }

  // The number of the address of a frame, from 0 on.
  uint32_t address_number(uint32_t place) const { return frames_[place]; }
  uintptr_t address(uint32_t number) const { return addresses_[number]; }

  static constexpr uint32_t kAddresses = 8192;
  static constexpr uint32_t kFrames = 32768;
  static constexpr uint32_t kSites = 1024;
  static constexpr uint32_t kSamples = 5120;

 private:
  static constexpr uint32_t kSiteSlots = 2 * kSites;
  static constexpr uint32_t kSampleSlots = 8192;

  bool map();
  template <typename T>
  T* take(size_t count);
  uint32_t add_address(uintptr_t address);
  bool same_stack(const Site& site, const uintptr_t* frames, unsigned depth) const;
  uint32_t add_site(uint64_t hash, const uintptr_t* frames, unsigned depth);
  uint32_t* chain_of(uintptr_t address);

  char* memory_ = nullptr;
  size_t taken_ = 0;
  uintptr_t* addresses_ = nullptr;  // a hash table
  uint32_t* frames_ = nullptr;      // indices of addresses
  Site* sites_ = nullptr;
  uint32_t* by_hash_ = nullptr;  // indices of sites + 1
  Sample* samples_ = nullptr;
  uint32_t* by_address_ = nullptr;
  uint32_t address_count_ = 0;
  uint32_t frame_count_ = 0;
  uint32_t site_count_ = 0;
  uint32_t free_samples_ = 0;
  uint32_t live_samples_ = 0;
  uint64_t dropped_stacks_ = 0;
};

}  // namespace near::profile
