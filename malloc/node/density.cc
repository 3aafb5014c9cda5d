#include "node/density.h"

#include <algorithm>

#include "base/bits.h"
#include "platform/futex.h"

namespace near {
namespace {

constexpr unsigned kPerDoubling = 4;
constexpr uint32_t kExploreEvery = 15;  // odd: blocks that fill a chunk come in powers of two
constexpr uint32_t kMostRest = 255;
constexpr size_t kLooks = 16;      // pages of a block
constexpr size_t kMostSparse = 4;  // unwritten ones of these make a block sparse

uintptr_t start_of(const Span& run) {
  return align_down(reinterpret_cast<uintptr_t>(run.start), kSliceSize);
}

// A written page may have words of zero, so eight words have to be zero in an unwritten page. The
// words lie in different lines, at different places of a line.
bool is_unwritten(uintptr_t page) {
  constexpr size_t kWords = 8;
  constexpr size_t kStep = kPageSize / kWords + 8;
  static_assert((kWords - 1) * kStep < kPageSize);
  for (size_t at = 0; at < kWords; at++) {
    if (!futex_reads_zero(page + at * kStep)) return false;
  }
  return true;
}

}  // namespace

constinit Densities densities;

unsigned Densities::number_of(uint32_t slices) {
  const auto log = static_cast<unsigned>(log2_floor(slices));
  const auto quarters = static_cast<unsigned>(uint64_t{slices} * kPerDoubling >> log);
  return log * kPerDoubling + quarters % kPerDoubling;
}

// Pages of the shortest run of a record.
size_t Densities::pages_of(unsigned number) {
  const size_t quarters = kPerDoubling + number % kPerDoubling;
  return (quarters << number / kPerDoubling) / kPerDoubling << (kSliceShift - kPageShift);
}

// Points for the record of a run. Reads pages in the middles of equal parts of the run.
int Densities::judge(uintptr_t start, size_t pages) {
  size_t unwritten = 0;
  for (size_t i = 0; i < kLooks && unwritten <= kMostSparse; i++) {
    const size_t page = (2 * i + 1) * pages / (2 * kLooks);
    unwritten += is_unwritten(start + (page << kPageShift)) ? 1 : 0;
  }
  if (unwritten > kMostSparse) return -kSure;
  return unwritten > 0 ? -1 : 1;
}

int Densities::score_of(unsigned number) const {
  return records_[number].score.load(kRelaxed);  // relaxed: a hint
}

bool Densities::expects_dense(uint32_t slices) {
  const unsigned number = number_of(slices);
  unsigned known = number;
  while (score_of(known) == 0 && known > 0 && number - known < kPerDoubling) known--;
  if (score_of(known) <= 0) return false;
  return records_[number].asked.fetch_add(1, kRelaxed) % kExploreEvery != 0;  // relaxed: a hint
}

void Densities::record(unsigned number, uintptr_t start, Look look) {
  Record& record = records_[number];
  const int before = score_of(number);
  const int found = judge(start, pages_of(number));
  const bool is_early = look == Look::early && found < 0;  // the program may fill the block yet
  const int after = is_early ? before : std::clamp(before + found, -kSure, kSure);
  record.score.store(after, kRelaxed);  // relaxed: a hint
  const bool same = is_early || (before > 0 ? found > 0 : before < 0 && found < 0);
  // relaxed: a hint
  const uint32_t rest = same ? 2 * record.rest.load(kRelaxed) + 1 : 0;
  record.rest.store(std::min(rest, kMostRest), kRelaxed);  // relaxed: a hint
  record.passed.store(0, kRelaxed);                        // relaxed: a hint
}

void Densities::consider(Span& run) {
  const unsigned number = number_of(run.slices);
  Record& record = records_[number];
  // relaxed: hints
  if (record.passed.fetch_add(1, kRelaxed) < record.rest.load(kRelaxed)) return;
  run.watched = static_cast<uint16_t>(kMayBe + 1 + number);
  const uintptr_t before = record.watched.exchange(start_of(run), kRelaxed);
  if (before != 0) this->record(number, before, Look::early);
}

void Densities::look_last(Span& run) {
  const unsigned number = run.watched - kMayBe - 1;
  run.watched = kNot;
  uintptr_t start = start_of(run);
  // relaxed: a hint; only this thread has the run
  if (records_[number].watched.compare_exchange_strong(start, 0, kRelaxed, kRelaxed)) {
    record(number, start, Look::last);
  }
}

}  // namespace near
