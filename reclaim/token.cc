// Token EBR's slow half: receiving the token, and moving it past idle threads.
// Thread-safety: only the record's owner.
#include "nearmalloc/reclaim/impl/core.hpp"
#include "reclaim/schemes.h"

namespace near::reclaim::impl {
namespace {

constexpr size_t kFreesBetweenLooks = 100;  // [Kim23 §3.4]
constexpr uint32_t kPatience = 16;          // looks at a token that does not move

// False if another thread skipped this one meanwhile.
bool pass_on(Record& record, uint64_t word) noexcept {
  Core& core = *record.core;
  const auto moved = core.ring.pass(core.records, record, word, core.asymmetric);
  if (moved && TokenRing::round_of(*moved) != TokenRing::round_of(word)) {
    core.record_epoch(record, TokenRing::round_of(*moved));
  }
  return moved.has_value();
}

// Frees all that is safe; passes on at once a token that arrives meanwhile.
size_t free_and_pass(Record& record) noexcept {
  size_t freed = 0;
  size_t last = 0;
  do {
    last = free_now(record, kFreesBetweenLooks);
    freed += last;
    if (const auto word = record.core->ring.at(record.index)) pass_on(record, *word);
  } while (last == kFreesBetweenLooks);
  return freed;
}

// Called when the token has arrived: what was retired before this thread's last pass is safe. A
// pass counts only if this thread did it: a thread that skips it may have looked at others before.
void receive(Record& record, uint64_t word) noexcept {
  Core& core = *record.core;
  const TokenPass pass = core.traits.pass;
  if (pass != TokenPass::after_free && !pass_on(record, word)) return;
  record_garbage(record, TokenRing::round_of(word));
  record.active_at.store(TokenRing::round_of(word), kRelaxed);  // relaxed: a hint
  const size_t left = record.limbo.waiting();
  record.lock.enter(core.asymmetric);
  core.count_garbage(record);
  record.limbo.advance(record.token.passes + 1, kTokenBags);
  record.lock.leave();
  adapt_quota(record, left);
  core.adopt_left(record, false);
  if (record.limbo.waiting() > 0) {
    const bool batch = core.settings.reclaim.type == policy::kind::batch;
    const bool looks = batch && pass == TokenPass::while_freeing;
    record.since_free = 0;
    record.limbo.record_run(looks ? free_and_pass(record) : free_by_policy(record));
  }
  if (pass != TokenPass::after_free || pass_on(record, word)) record.token.passes++;
}

// Moves the token past idle threads, if it has not moved for kPatience looks.
void fetch(Record& record) noexcept {
  Core& core = *record.core;
  const uint64_t word = core.ring.word();
  if (word != record.token.stuck_at) {
    record.token.stuck_at = word;
    record.token.looks = 0;
  } else if (++record.token.looks >= kPatience) {
    record.token.looks = 0;
    if (!core.settings.skip_idle && !core.ring.is_left(core.records)) return;
    Record* holder = core.ring.skip_idle(core.records, record, core.asymmetric);
    if (holder != nullptr) core.record_blocked(record, *holder, word);
  }
}

}  // namespace

void look_at_token_soon(Record& record) noexcept {
  record.token.countdown = 1;
  record.token.interval = record.core->settings.operations_between_checks;
  record.token.stuck_at = record.core->ring.word();
  record.token.looks = kPatience - 1;
}

void check_token(Record& record) noexcept {
  Core& core = *record.core;
  if (const auto word = core.ring.at(record.index)) {
    receive(record, *word);
  } else if (record.limbo.held() > 0) {
    fetch(record);
  }
}

}  // namespace near::reclaim::impl
