// A heap alone, driven as front/ drives it, with an account of its live blocks.
// Invariant (expect_whole): every span of the heap passes its check, and its free, uncarved and
// remote blocks and the live ones are its capacity.
// Thread-safety: the thread of the test that made it.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "heap/heap.h"
#include "heap/registry.h"
#include "node/memory.h"
#include "span/span.h"
#include "support/parted.h"
#include "support/pattern.h"

namespace near_test {

// Classes at the edges of what heaps do.
constexpr unsigned kSmall = 3;                      // 64 bytes
constexpr unsigned kMedium = near::class_of(4096);  // one slice
constexpr unsigned kLargest = near::kClasses - 1;   // several slices

class HeapRoom {
 public:
  // A heap of the registry, without hot spans: others can deliver to it by its number.
  explicit HeapRoom(unsigned node = 0) : heap_(near::take_heap(node)) {
    flush();
    part_classes(*heap_);
  }
  ~HeapRoom() {
    if (heap_ != nullptr) near::park_heap(heap_);
  }
  HeapRoom(const HeapRoom&) = delete;
  HeapRoom& operator=(const HeapRoom&) = delete;

  near::Heap& heap() { return *heap_; }
  void park() {
    near::park_heap(heap_);
    heap_ = nullptr;
  }

  // Allocates as malloc does; null if memory is refused.
  char* take(unsigned size_class) {
    const bool is_medium = near::SpareBlocks::is_for(size_class);
    near::Block* block = is_medium ? heap_->spares_of(size_class).take() : nullptr;
    if (block == nullptr) {
      block = heap_->bins[size_class].pop();
      if (block != nullptr && is_medium) heap_->count_taken(size_class);
    }
    if (block == nullptr) {
      block = static_cast<near::Block*>(heap_->refill(size_class));
    }
    if (block != nullptr) hold(reinterpret_cast<char*>(block), size_class);
    return reinterpret_cast<char*>(block);
  }

  // A block that was taken from the heap is live from now on.
  void hold(char* bytes, unsigned size_class) {
    EXPECT_TRUE(live_.emplace(bytes, size_class).second) << "a live block was given out";
    fill(bytes, near::kSizeClasses[size_class].size, seed_of(bytes));
  }

  // Frees as free does on the heap's own thread.
  void free(char* bytes) {
    near::Span& span = span_of(bytes);
    auto* block = reinterpret_cast<near::Block*>(bytes);
    if (!span.frees_are_fast()) {
      near::SpareBlocks::OfClass& spares = heap_->spares_of(span.size_class);
      ASSERT_FALSE(spares.has(block));
      if (heap_->may_keep_spare(span, spares)) {
        forget(bytes);
        return heap_->keep_spare(spares, block);
      }
    }
    free_into_span(bytes);
  }

  // As free, and the block does not become a spare one.
  void free_into_span(char* bytes) {
    forget(bytes);
    near::Span& span = span_of(bytes);
    ASSERT_EQ(span.owner.load(), heap_);
    auto* block = reinterpret_cast<near::Block*>(bytes);
    span.list->splice(block, block);
    if (span.frees.tick()) heap_->on_count(&span);
  }

  // Frees as free does on any other thread.
  void free_remotely(char* bytes) {
    forget(bytes);
    near::Span& span = span_of(bytes);
    const auto pushed =
        span.remote.push(near::SpanBlocks{span.start}, reinterpret_cast<near::Block*>(bytes));
    ASSERT_FALSE(pushed.repeated);
    if (pushed.first) near::heap_by_id(pushed.owner)->receive(&span);
  }

  static near::Span& span_of(const char* bytes) {
    near::Span* span = near::span_of(bytes);
    return span->kind == near::SpanKind::inside ? *(span - span->back) : *span;
  }

  std::vector<near::Span*> spans() {
    std::vector<near::Span*> owned;
    for (unsigned n = 0; n < near::topology.count; n++) {
      near::nodes[n].for_each_span([&](const near::Span& span) {
        if (span.kind == near::SpanKind::blocks && span.owner.load() == heap_) {
          owned.push_back(const_cast<near::Span*>(&span));
        }
      });
    }
    return owned;
  }

  void expect_whole() {
    std::map<const near::Span*, uint32_t> live;
    for (const auto& [bytes, size_class] : live_) {
      live[&span_of(bytes)]++;
      ASSERT_TRUE(holds(bytes, near::kSizeClasses[size_class].size, seed_of(bytes)));
    }
    ASSERT_EQ(heap_->check_spares(), 0u);
    heap_->spares().for_each([&](unsigned, const near::Block* block) {
      live[&span_of(reinterpret_cast<const char*>(block))]++;
    });
    for (const near::Span* span : spans()) {
      ASSERT_EQ(heap_->check_span(*span), 0u);
      const uint32_t free = near::count_list(*span, *span->list);
      ASSERT_EQ(live[span] + free + near::count_uncarved(*span) + span->remote.count(),
                span->shape().capacity)
          << "blocks of " << span->shape().size;
      live.erase(span);
    }
    for (const auto& [span, count] : live) ASSERT_EQ(count, 0u) << "blocks without a span";
  }

  // As a look at a heap that has shrunk does.
  void return_spares() {
    const near::LockGuard guard(heap_->lock);
    heap_->look_at_all_hot();
  }

  void flush() {
    const near::LockGuard guard(heap_->lock);
    heap_->flush();
  }

  std::map<char*, unsigned>& live() { return live_; }

 private:
  static uint64_t seed_of(const char* bytes) { return reinterpret_cast<uintptr_t>(bytes); }

  void forget(char* bytes) {
    const auto at = live_.find(bytes);
    ASSERT_NE(at, live_.end());
    ASSERT_TRUE(holds(bytes, near::kSizeClasses[at->second].size, seed_of(bytes)));
    live_.erase(at);
  }

  near::Heap* heap_;
  std::map<char*, unsigned> live_;
};

}  // namespace near_test
