#include "profile/table.h"

#include <cstring>

#include "base/bits.h"
#include "platform/os.h"

namespace near::profile {
namespace {

uint64_t mix(uint64_t value) {
  value = (value ^ value >> 32) * 0x9e3779b97f4a7c15;
  return value ^ value >> 29;
}

uint64_t hash_of(const uintptr_t* frames, unsigned depth) {
  uint64_t hash = depth;
  for (unsigned i = 0; i < depth; i++) hash = mix(hash ^ frames[i]);
  return hash;
}

}  // namespace

template <typename T>
T* Table::take(size_t count) {
  T* start = reinterpret_cast<T*>(memory_ + taken_);
  taken_ = align_up(taken_ + count * sizeof(T), 64);
  return start;
}

bool Table::map() {
  static_assert(kAddresses * sizeof(uintptr_t) + kFrames * sizeof(uint32_t) +
                    kSites * sizeof(Site) + kSiteSlots * sizeof(uint32_t) +
                    kSamples * sizeof(Sample) + kSampleSlots * sizeof(uint32_t) + size_t{6} * 64 <=
                kBytes);
  memory_ = static_cast<char*>(os::map_anywhere(kBytes, os::page_size()));
  if (memory_ == nullptr) return false;
  addresses_ = take<uintptr_t>(kAddresses);
  frames_ = take<uint32_t>(kFrames);
  sites_ = take<Site>(kSites);
  by_hash_ = take<uint32_t>(kSiteSlots);
  samples_ = take<Sample>(kSamples);
  by_address_ = take<uint32_t>(kSampleSlots);
  memset(by_address_, 0xff, kSampleSlots * sizeof(uint32_t));
  free_samples_ = kNone;
  for (uint32_t i = kSamples; i > 0; i--) {
    samples_[i - 1].next = free_samples_;
    free_samples_ = i - 1;
  }
  return true;
}

bool Table::reset() {
  if (memory_ == nullptr && !map()) return false;
  for (uint32_t slot = 0; slot < kSampleSlots; slot++) {
    for (uint32_t i = by_address_[slot]; i != kNone; i = samples_[i].next) samples_[i].site = kNone;
  }
  memset(addresses_, 0, kAddresses * sizeof(uintptr_t));
  memset(by_hash_, 0, kSiteSlots * sizeof(uint32_t));
  address_count_ = frame_count_ = site_count_ = 0;
  dropped_stacks_ = 0;
  add_site(hash_of(nullptr, 0), nullptr, 0);
  return true;
}

// Returns the index of the address; kNone if the table is full.
uint32_t Table::add_address(uintptr_t address) {
  if (address == 0) return kNone;
  uint32_t slot = static_cast<uint32_t>(mix(address)) % kAddresses;
  for (; addresses_[slot] != 0; slot = (slot + 1) % kAddresses) {
    if (addresses_[slot] == address) return slot;
  }
  if (address_count_ == kAddresses / 8 * 7) return kNone;
  address_count_++;
  addresses_[slot] = address;
  return slot;
}

bool Table::same_stack(const Site& site, const uintptr_t* frames, unsigned depth) const {
  if (site.depth != depth) return false;
  for (unsigned i = 0; i < depth; i++) {
    if (frame(site.stack + i) != frames[i]) return false;
  }
  return true;
}

// Returns 0 if there is no room.
uint32_t Table::add_site(uint64_t hash, const uintptr_t* frames, unsigned depth) {
  if (site_count_ == kSites || frame_count_ + depth > kFrames) return 0;
  for (unsigned i = 0; i < depth; i++) {
    const uint32_t number = add_address(frames[i]);
    if (number == kNone) return 0;
    frames_[frame_count_ + i] = number;
  }
  Site& site = sites_[site_count_];
  site = {};
  site.hash = hash;
  site.stack = frame_count_;
  site.depth = depth;
  for (uint32_t& heap : site.heaps) heap = kNone;
  frame_count_ += depth;
  uint32_t slot = static_cast<uint32_t>(hash) % kSiteSlots;
  while (by_hash_[slot] != 0) slot = (slot + 1) % kSiteSlots;
  by_hash_[slot] = ++site_count_;
  return site_count_ - 1;
}

uint32_t Table::find_site(const uintptr_t* frames, unsigned depth) {
  const uint64_t hash = hash_of(frames, depth);
  uint32_t slot = static_cast<uint32_t>(hash) % kSiteSlots;
  for (; by_hash_[slot] != 0; slot = (slot + 1) % kSiteSlots) {
    const uint32_t index = by_hash_[slot] - 1;
    if (sites_[index].hash == hash && same_stack(sites_[index], frames, depth)) return index;
  }
  const uint32_t added = add_site(hash, frames, depth);
  if (added == 0) dropped_stacks_++;
  return added;
}

uint32_t* Table::chain_of(uintptr_t address) {
  return &by_address_[static_cast<uint32_t>(mix(address)) % kSampleSlots];
}

Sample* Table::add(uintptr_t address) {
  if (!has_room()) return nullptr;
  const uint32_t index = free_samples_;
  Sample& sample = samples_[index];
  free_samples_ = sample.next;
  sample = {};
  sample.address = address;
  uint32_t* chain = chain_of(address);
  sample.next = *chain;
  *chain = index;
  live_samples_++;
  return &sample;
}

bool Table::remove(uintptr_t address, Sample& out) {
  for (uint32_t* link = chain_of(address); *link != kNone; link = &samples_[*link].next) {
    Sample& sample = samples_[*link];
    if (sample.address != address) continue;
    out = sample;
    const uint32_t index = *link;
    *link = sample.next;
    sample.address = 0;
    sample.next = free_samples_;
    free_samples_ = index;
    live_samples_--;
    return true;
  }
  return false;
}

}  // namespace near::profile
