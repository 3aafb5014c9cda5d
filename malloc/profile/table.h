// The profiler's own memory: sites, the frames of their stacks, and the live sampled blocks, found
// by address.
//
// All of it is one mapping of a fixed size, made at the first start and kept. Pages are resident
// from their first use on. When there is no room for a stack, sites without live blocks that
// allocated least are folded into site 0, which has no frames: sums over all sites stay exact.
// What has no room even so is counted as dropped: a block of an unknown stack counts for site 0,
// and a block for which there is no room is counted as allocated and not followed.
// Invariant: each live sample is in one chain of `by_address`; each site is in `by_hash`; the
// frames of sites are in the order of the sites, without gaps. Numbers of sites and of addresses
// stay until the next fold or start. A link or a slot is a number + 1, and 0 for none.
// Thread-safety: the caller holds the profiler's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bits.h"
#include "profile/site.h"

namespace near::profile {

inline constexpr uint16_t kNoSite = 0xffff;
inline constexpr uint64_t kMostBlock = (uint64_t{1} << 56) - 1;  // above all addresses

// What it stands for follows from its size.
struct Sample {
  uintptr_t address;
  uint64_t size;        // bytes asked for
  uint64_t when;        // nanoseconds
  uint64_t block : 56;  // bytes of the block
  uint64_t node : 8;    // of the block
  uint32_t heap;        // of the thread that allocated it
  uint16_t site;        // kNoSite: it was sampled before the last start
  uint16_t next;        // a link: in its chain, or in the list of free ones
};

class Table {
 public:
  // Maps the memory. False if the system refuses. Later calls forget all sites; live samples stay,
  // without a site.
  bool reset();

  // The site of a stack. Site 0 stands for all stacks that have no room. `may_fold`: numbers may
  // change; `peak_number`: of the last peak.
  uint32_t find_site(const uintptr_t* frames, unsigned depth, bool may_fold, uint64_t peak_number);
  Site& site(uint32_t index) { return parts_->sites[index]; }
  uint32_t number_of(const Site& site) const {
    return static_cast<uint32_t>(&site - parts_->sites);
  }
  uint32_t site_count() const { return site_count_; }
  uintptr_t frame(uint32_t place) const { return parts_->addresses[parts_->frames[place]]; }

  // A sample of the address; null if there is no room.
  Sample* add(uintptr_t address);
  // The live sample of the address; null if there is none.
  Sample* find(uintptr_t address);
  // Takes a sample out and copies it to `out`. False if there is none of that address.
  bool remove(uintptr_t address, Sample& out);
  // The sample of a number below kSamples; its address is 0 if it is not live.
  const Sample& sample(uint32_t number) const { return parts_->samples[number]; }
  bool has_room() const { return free_samples_ != 0 || used_samples_ < kSamples; }

  uint32_t live_samples() const { return live_samples_; }
  // Samples of site 0 that had a stack.
  uint64_t dropped_stacks() const { return dropped_stacks_; }
  // How often sites were folded.
  uint32_t folds() const { return folds_; }
  const void* start() const { return parts_; }

  // The number of the address of a frame, from 0 on.
  uint32_t address_number(uint32_t place) const { return parts_->frames[place]; }
  uintptr_t address(uint32_t number) const { return parts_->addresses[number]; }

  static constexpr uint32_t kAddresses = 6144;
  static constexpr uint32_t kFrames = 26624;
  static constexpr uint32_t kSites = 768;
  static constexpr uint32_t kSamples = 5120;
  // Sites that are folded at once: else each new stack would pay for all.
  static constexpr uint32_t kMostFolded = kSites / 8;
  static constexpr uint32_t kLeastFolded = kSites / 32;

 private:
  static constexpr uint32_t kSiteSlots = 2 * kSites;
  static constexpr uint32_t kSampleSlots = 4096;

  struct Parts {
    uintptr_t addresses[kAddresses];  // a hash table
    uint16_t frames[kFrames];         // numbers of addresses
    Site sites[kSites];
    uint16_t by_hash[kSiteSlots];  // of sites
    Sample samples[kSamples];
    uint16_t by_address[kSampleSlots];  // links
  };

 public:
  static constexpr size_t kBytes = align_up(sizeof(Parts), 64 * kKiB);

 private:
  bool map();
  void forget();
  uint32_t add_address(uintptr_t address);
  uint32_t add_site(uint64_t hash, const uintptr_t* frames, unsigned depth);
  void enter_hash(uint32_t number);
  bool fold_sites(uint64_t peak_number);
  uint32_t choose_idle(uint16_t* chosen) const;
  void close_gaps(const uintptr_t* addresses, uint16_t* numbers);
  uint16_t* chain_of(uintptr_t address);
  uint16_t* link_to(uintptr_t address);

  Parts* parts_ = nullptr;
  uint32_t address_count_ = 0;
  uint32_t frame_count_ = 0;
  uint32_t site_count_ = 0;
  uint32_t used_samples_ = 0;  // those that follow were never used
  uint16_t free_samples_ = 0;
  uint32_t live_samples_ = 0;
  uint64_t dropped_stacks_ = 0;
  uint32_t folds_ = 0;
};

}  // namespace near::profile
