// Damage on purpose, of the kinds that the checks have to find: tests use it to prove that they do.
#include <csignal>
#include <string_view>

#include "heap/registry.h"
#include "numa/simulator_play.h"

namespace near_test {
namespace {

using near::Heap;
using near::Span;
using near::SpanKind;

// A heap that is not this one, or null.
Heap* another(const Heap* heap) {
  for (uint32_t id = 0; id < near::heap_count(); id++) {
    if (near::heap_by_id(id) != heap) return near::heap_by_id(id);
  }
  return nullptr;
}

// The kinds of damage to a span with a live block. False if this span cannot have it.

bool lose_a_free_block(Span& span) {
  if (span.list != &span.local || span.local.is_empty()) return false;
  span.local.pop();
  return true;
}

bool change_the_owner(Span& span) {
  Heap* other = another(span.owner.load());
  if (other == nullptr) return false;
  span.owner.store(other);
  return true;
}

bool misdirect_remote_frees(Span& span) {
  const Heap* other = another(span.owner.load());
  if (other == nullptr || span.remote.count() > 0) return false;
  span.remote.open(other->id(), span.node, span.size_class);
  return true;
}

bool forget_what_is_uncarved(Span& span) {
  if (span.uncarved == 0) return false;
  span.uncarved &= span.uncarved - 1;
  return true;
}

struct Damage {
  std::string_view kind;
  bool (*apply)(Span& span);
};
constexpr Damage kDamages[] = {
    {"list", lose_a_free_block},
    {"owner", change_the_owner},
    {"remote", misdirect_remote_frees},
    {"uncarved", forget_what_is_uncarved},
};

bool overwrite_a_byte(const Model& model) {
  for (const LiveBlock& block : model.blocks) {
    if (block.size == 0) continue;
    block.start[0] = static_cast<char>(~block.start[0]);
    return true;
  }
  return false;
}

bool unpark_a_heap() {
  for (uint32_t id = 0; id < near::heap_count(); id++) {
    Heap* heap = near::heap_by_id(id);
    if (!heap->registration.parked) continue;
    heap->registration.parked = false;
    return true;
  }
  return false;
}

}  // namespace

bool do_damage(std::string_view kind, Model& model) {
  if (kind == "content") return overwrite_a_byte(model);
  if (kind == "heap") return unpark_a_heap();
  if (kind == "abort") return std::raise(SIGABRT) == 0;
  for (const Damage& damage : kDamages) {
    if (damage.kind != kind) continue;
    for (const LiveBlock& block : model.blocks) {
      Span& span = span_of_block(block.start);
      if (span.kind == SpanKind::blocks && damage.apply(span)) return true;
    }
    return false;
  }
  model.journal.fail("there is no such damage");
}

}  // namespace near_test
