#include "designs/super/fullest_fit.h"

#include "designs/super/chunk_table.h"
#include "platform/os.h"

namespace near::design::super {
namespace {

char* chunk_of(const void* pointer) {
  return reinterpret_cast<char*>(align_down(reinterpret_cast<uintptr_t>(pointer), kChunk));
}

// The descriptions of the folios are an array at the start of the chunk.
Folio* folios_of(char* chunk) { return reinterpret_cast<Folio*>(chunk); }

char* start_of(const Bin& bin, Folio* folio) {
  char* chunk = chunk_of(folio);
  return chunk + bin.first + static_cast<size_t>(folio - folios_of(chunk)) * bin.folio_bytes();
}

}  // namespace

void FullestFit::start(unsigned bin, List<Folio>* by_free) {
  bin_ = bin;
  by_free_ = by_free;
}

// Removes the fullest folio with room from its list and returns it; null if memory is refused.
Folio* FullestFit::with_room() {
  for (unsigned word = 0; word < std::size(levels_); word++) {
    if (levels_[word] == 0) continue;
    const auto level = word * 64 + static_cast<unsigned>(std::countr_zero(levels_[word]));
    Folio* folio = by_free_[level].front();
    remove(folio);
    return folio;
  }
  if (Folio* folio = purged_.front()) {
    purged_.remove(folio);
    return folio;
  }
  return fresh();
}

Folio* FullestFit::fresh() {
  if (chunk_ == nullptr || next_fresh_ == bin().folios) {
    auto* chunk = static_cast<char*>(arena.take(kChunk));
    if (chunk == nullptr) return nullptr;
    ChunkTable::set(ChunkTable::number_of(chunk), bin_ + 1);
    chunk_ = chunk;
    next_fresh_ = 0;
    totals_.chunks++;
  }
  Folio* folio = &folios_of(chunk_)[next_fresh_++];
  folio->carve(bin().per_folio);
  return folio;
}

void FullestFit::add(Folio* folio) {
  by_free_[folio->free].push_front(folio);
  levels_[folio->free / 64] |= uint64_t{1} << folio->free % 64;
}

void FullestFit::remove(Folio* folio) {
  List<Folio>& list = by_free_[folio->free];
  list.remove(folio);
  if (list.empty()) levels_[folio->free / 64] &= ~(uint64_t{1} << folio->free % 64);
}

BlockList FullestFit::take(uint32_t wanted) {
  BlockList taken;
  while (taken.count < wanted) {
    Folio* folio = with_room();
    if (folio == nullptr) break;
    char* start = start_of(bin(), folio);
    while (folio->free > 0 && taken.count < wanted) {
      taken.add_last(reinterpret_cast<Block*>(start + size_t{folio->take()} * bin().size));
    }
    if (folio->free > 0) add(folio);
  }
  totals_.in_use += taken.count;
  return taken;
}

bool FullestFit::put(void* block) {
  char* chunk = chunk_of(block);
  const auto offset = static_cast<uint32_t>(static_cast<char*>(block) - chunk) - bin().first;
  const uint32_t number = offset / bin().size;
  const uint32_t index = number / bin().per_folio;
  if (index >= bin().folios) return false;
  Folio* folio = &folios_of(chunk)[index];
  const uint32_t bit = number % bin().per_folio;
  const uint32_t free_before = folio->free;
  if (!folio->put(bit)) return false;
  totals_.in_use--;
  if (free_before > 0) {
    folio->free = free_before;
    remove(folio);
    folio->free = free_before + 1;
  }
  const bool keep = bin_ < kSmallBins && by_free_[bin().per_folio].empty();
  if (folio->free < bin().per_folio || keep) {
    add(folio);
  } else {
    purge(folio);
  }
  return true;
}

void FullestFit::purge(Folio* folio) {
  // A system page may be larger than ours.
  const size_t page = max_of(kPage, os::page_size());
  const auto start = reinterpret_cast<uintptr_t>(start_of(bin(), folio));
  const size_t from = align_up(start, page);
  const size_t to = align_down(start + bin().folio_bytes(), page);
  if (from < to && os::purge(reinterpret_cast<void*>(from), to - from)) totals_.purged++;
  purged_.push_front(folio);
}

void FullestFit::trim() {
  Folio* kept = by_free_[bin().per_folio].front();
  if (kept == nullptr) return;
  remove(kept);
  purge(kept);
}

}  // namespace near::design::super
