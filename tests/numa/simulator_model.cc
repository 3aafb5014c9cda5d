#include "numa/simulator_model.h"

#include "support/fake_cpu.h"
#include "support/pattern.h"

namespace near_test {

void VirtualThread::enter() const {
  near::current_heap = heap;
  near::thread_record = record;
  set_cpu(cpu);
}

void VirtualThread::leave() {
  heap = near::current_heap;
  record = near::thread_record;
  near::current_heap = &near::empty_heap;
  near::thread_record = {};
}

void VirtualThread::move_to(unsigned new_cpu) {
  cpu = new_cpu;
  set_cpu(new_cpu);
}

void fill_block(const LiveBlock& block) {
  fill(block.start, block.size, block.pattern);
  if (block.size > kWholeUpTo) fill_range(block.start, 0, kWholeUpTo, block.pattern);
}

bool is_intact(const LiveBlock& block) { return holds(block.start, block.size, block.pattern); }

near::Span& span_of_block(const void* block) {
  near::Span* span = near::span_of(block);
  return span->kind == near::SpanKind::inside ? *(span - span->back) : *span;
}

Model::Model(Journal& journal_, const World& world_) : journal(journal_), world(world_) {}

void Model::add(char* start, size_t size, unsigned maker) {
  blocks.push_back({start, size, ++patterns_, maker});
  live_bytes += size;
  fill_block(blocks.back());
  journal.count(Event::block);
}

LiveBlock Model::remove(size_t index) {
  const LiveBlock block = blocks[index];
  journal.demand(is_intact(block), "a block lost its content before it was freed", {block.size});
  blocks[index] = blocks.back();
  blocks.pop_back();
  live_bytes -= block.size;
  return block;
}

void Model::replace(size_t index, char* start, size_t size, unsigned maker) {
  LiveBlock& block = blocks[index];
  live_bytes += size - block.size;
  block = {start, size, ++patterns_, maker};
  fill_block(block);
}

Origin origin_of(const void* block) {
  const near::Span& span = span_of_block(block);
  return {&span, span.kind, span.owner.load(), span.region->node()};
}

void Model::record_free(const Origin& origin) {
  const near::Heap* mine = near::current_heap;
  const unsigned home = is_real(mine) ? mine->node() : near::current_node();
  NodeAccount& account = nodes[origin.node];
  // realloc may have adopted the span before it freed the block
  const bool adopted =
      origin.span->kind == near::SpanKind::blocks && origin.span->owner.load() == mine;
  const bool is_class = origin.kind == near::SpanKind::blocks;
  if (is_class && (origin.owner == mine || adopted)) {
    account.freed_own[home]++;
    return journal.count(Event::own_free);
  }
  account.freed_apart[home]++;
  if (!is_class) return journal.count(Event::large_free);
  journal.count(Event::remote_free);
  remote_frees++;
}

void Model::record_spill(unsigned node, unsigned other) {
  nodes[node].spills_out++;
  nodes[other].spills_in++;
  journal.count(Event::spill);
  journal.note("spill", {node, other});
}

void Model::record_place(const char* what, const void* address, uint64_t size) {
  const near::Span& span = span_of_block(address);
  const auto offset = static_cast<const char*>(address) - span.region->chunk_start(0);
  journal.note(what, {size, span.region->node(), regions.of(span.region),
                      static_cast<uint64_t>(offset) / near::kBlockAlign});
}

}  // namespace near_test
