#include "profile/table.h"

#include <algorithm>
#include <cstring>

#include "platform/os.h"

namespace near::profile {
namespace {

constexpr uint32_t kNoRoom = ~uint32_t{0};

uint64_t mix(uint64_t value) {
  value = (value ^ value >> 32) * 0x9e3779b97f4a7c15;
  return value ^ value >> 29;
}

// Two of all sites have one hash with a chance of 2^-46: they would be one site.
uint64_t hash_of(const uintptr_t* frames, unsigned depth) {
  uint64_t hash = depth;
  for (unsigned i = 0; i < depth; i++) hash = mix(hash ^ frames[i]);
  return hash;
}

}  // namespace

bool Table::map() {
  static_assert(kAddresses <= 0x10000 && kFrames <= 0x10000 && kSites < kNoSite);
  static_assert(kSamples < 0xffff);
  parts_ = static_cast<Parts*>(os::map_anywhere(kBytes, os::page_size()));
  return parts_ != nullptr;
}

void Table::forget() {
  for (uint32_t i = 0; i < used_samples_; i++) parts_->samples[i].site = kNoSite;
  memset(parts_->addresses, 0, sizeof parts_->addresses);
  memset(parts_->by_hash, 0, sizeof parts_->by_hash);
  address_count_ = frame_count_ = site_count_ = 0;
  dropped_stacks_ = 0;
}

bool Table::reset() {
  if (parts_ != nullptr) forget();
  if (parts_ == nullptr && !map()) return false;
  add_site(hash_of(nullptr, 0), nullptr, 0);
  return true;
}

// Returns the index of the address; kNoRoom if the table is full.
uint32_t Table::add_address(uintptr_t address) {
  if (address == 0) return kNoRoom;
  uint32_t slot = static_cast<uint32_t>(mix(address)) % kAddresses;
  for (; parts_->addresses[slot] != 0; slot = (slot + 1) % kAddresses) {
    if (parts_->addresses[slot] == address) return slot;
  }
  if (address_count_ == kAddresses / 8 * 7) return kNoRoom;
  address_count_++;
  parts_->addresses[slot] = address;
  return slot;
}

// Returns 0 if there is no room.
uint32_t Table::add_site(uint64_t hash, const uintptr_t* frames, unsigned depth) {
  if (site_count_ == kSites || frame_count_ + depth > kFrames) return 0;
  for (unsigned i = 0; i < depth; i++) {
    const uint32_t number = add_address(frames[i]);
    if (number == kNoRoom) return 0;
    parts_->frames[frame_count_ + i] = static_cast<uint16_t>(number);
  }
  Site& site = parts_->sites[site_count_];
  site = {};
  site.hash = hash;
  site.stack = static_cast<uint16_t>(frame_count_);
  site.depth = static_cast<uint16_t>(depth);
  for (uint32_t& heap : site.heaps) heap = kFreeEntry;
  frame_count_ += depth;
  enter_hash(site_count_);
  return site_count_++;
}

void Table::enter_hash(uint32_t number) {
  uint64_t slot = parts_->sites[number].hash % kSiteSlots;
  while (parts_->by_hash[slot] != 0) slot = (slot + 1) % kSiteSlots;
  parts_->by_hash[slot] = static_cast<uint16_t>(number + 1);
}

// Chooses those of the sites without live blocks that allocated least. Returns how many.
uint32_t Table::choose_idle(uint16_t* chosen) const {
  uint32_t count = 0;
  for (uint32_t i = 1; i < site_count_; i++) {
    if (parts_->sites[i].live.blocks == 0) chosen[count++] = static_cast<uint16_t>(i);
  }
  if (count <= kMostFolded) return count;
  std::nth_element(chosen, chosen + kMostFolded, chosen + count, [this](uint16_t a, uint16_t b) {
    return parts_->sites[a].allocated.bytes < parts_->sites[b].allocated.bytes;
  });
  return kMostFolded;
}

// Moves the sites to whose numbers `numbers` does not say kNoSite, and their frames, to the
// beginning, and says their new numbers there. `addresses`: a copy of all.
void Table::close_gaps(const uintptr_t* addresses, uint16_t* numbers) {
  memset(parts_->addresses, 0, sizeof parts_->addresses);
  memset(parts_->by_hash, 0, sizeof parts_->by_hash);
  const uint32_t count = site_count_;
  address_count_ = frame_count_ = site_count_ = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (numbers[i] == kNoSite) continue;
    Site& site = parts_->sites[site_count_];
    if (site_count_ != i) site = parts_->sites[i];
    const uint32_t from = site.stack;
    site.stack = static_cast<uint16_t>(frame_count_);
    for (uint32_t end = from + site.depth, at = from; at < end; at++) {
      const uint32_t number = add_address(addresses[parts_->frames[at]]);
      parts_->frames[frame_count_++] = static_cast<uint16_t>(number);
    }
    enter_hash(site_count_);
    numbers[i] = static_cast<uint16_t>(site_count_++);
  }
}

// False if few sites are without live blocks.
bool Table::fold_sites(uint64_t peak_number) {
  uint16_t chosen[kSites];
  const uint32_t count = choose_idle(chosen);
  if (count < kLeastFolded) return false;
  constexpr size_t kCopy = align_up(sizeof parts_->addresses, 64 * kKiB);
  auto* addresses = static_cast<uintptr_t*>(os::map_anywhere(kCopy, os::page_size()));
  if (addresses == nullptr) return false;
  memcpy(addresses, parts_->addresses, sizeof parts_->addresses);
  uint16_t numbers[kSites] = {};
  for (uint32_t i = 0; i < count; i++) {
    Site& site = parts_->sites[chosen[i]];
    parts_->sites[0].add(site, peak_number);
    dropped_stacks_ += site.samples;
    numbers[chosen[i]] = kNoSite;
  }
  close_gaps(addresses, numbers);
  os::unmap(addresses, kCopy);
  for (uint32_t i = 0; i < used_samples_; i++) {
    uint16_t& site = parts_->samples[i].site;
    if (site != kNoSite) site = numbers[site];
  }
  folds_++;
  return true;
}

uint32_t Table::find_site(const uintptr_t* frames, unsigned depth, bool may_fold,
                          uint64_t peak_number) {
  const uint64_t hash = hash_of(frames, depth);
  uint64_t slot = hash % kSiteSlots;
  for (; parts_->by_hash[slot] != 0; slot = (slot + 1) % kSiteSlots) {
    const uint32_t index = parts_->by_hash[slot] - 1;
    const Site& site = parts_->sites[index];
    if (site.hash == hash && site.depth == depth) return index;
  }
  uint32_t added = add_site(hash, frames, depth);
  if (added == 0 && may_fold && fold_sites(peak_number)) added = add_site(hash, frames, depth);
  if (added == 0) dropped_stacks_++;
  return added;
}

uint16_t* Table::chain_of(uintptr_t address) {
  return &parts_->by_address[static_cast<uint32_t>(mix(address)) % kSampleSlots];
}

Sample* Table::add(uintptr_t address) {
  if (!has_room()) return nullptr;
  if (free_samples_ == 0) free_samples_ = static_cast<uint16_t>(++used_samples_);
  const uint16_t link = free_samples_;
  Sample& sample = parts_->samples[link - 1];
  free_samples_ = sample.next;
  sample = {};
  sample.address = address;
  uint16_t* chain = chain_of(address);
  sample.next = *chain;
  *chain = link;
  live_samples_++;
  return &sample;
}

// The link to the sample of the address; the last link of its chain, 0, if there is none.
uint16_t* Table::link_to(uintptr_t address) {
  uint16_t* at = chain_of(address);
  while (*at != 0 && parts_->samples[*at - 1].address != address)
    at = &parts_->samples[*at - 1].next;
  return at;
}

Sample* Table::find(uintptr_t address) {
  const uint16_t link = *link_to(address);
  return link == 0 ? nullptr : &parts_->samples[link - 1];
}

bool Table::remove(uintptr_t address, Sample& out) {
  uint16_t* at = link_to(address);
  const uint16_t link = *at;
  if (link == 0) return false;
  Sample& sample = parts_->samples[link - 1];
  out = sample;
  *at = sample.next;
  sample.address = 0;
  sample.next = free_samples_;
  free_samples_ = link;
  live_samples_--;
  return true;
}

}  // namespace near::profile
