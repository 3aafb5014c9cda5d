#include "designs/nalloc/coalescing.h"

#include <new>

#include "front/invalid.h"

namespace near::design::nalloc {
namespace {

constexpr uint32_t kFree = 1;
constexpr uint32_t kSizeMask = 0xff0;  // sizes are multiples of 16
constexpr unsigned kLeftShift = 12;

}  // namespace

// relaxed in this file: one thread writes a header. The part that other threads read was written
// before they got the block, and stays.
struct Coalescing::Header {
  Atomic<uint32_t> word;

  uint32_t bits() const { return word.load(kRelaxed); }
  size_t size() const { return bits() & kSizeMask; }
  size_t left_size() const { return bits() >> kLeftShift; }
  bool is_free() const { return (bits() & kFree) != 0; }
  void set(size_t size, size_t left, bool free) {
    word.store(static_cast<uint32_t>(left << kLeftShift | size | (free ? kFree : 0)), kRelaxed);
  }

  static Header* of(const void* block) {
    return reinterpret_cast<Header*>(const_cast<char*>(static_cast<const char*>(block)) - kHeader);
  }
  char* block() { return reinterpret_cast<char*>(this) + kHeader; }
  FreeBlock* listed() { return reinterpret_cast<FreeBlock*>(block()); }
  Header* at(ptrdiff_t distance) {
    return reinterpret_cast<Header*>(reinterpret_cast<char*>(this) + distance);
  }
  // Null at the end of the arena.
  Header* right() {
    Header* next = at(static_cast<ptrdiff_t>(size()));
    return reinterpret_cast<uintptr_t>(next->block()) % kPage != 0 ? next : nullptr;
  }
  Header* left() { return left_size() > 0 ? at(-static_cast<ptrdiff_t>(left_size())) : nullptr; }

  // Writes the size, and stores it in the header of the block on the right.
  void resize(size_t size, bool free) {
    set(size, left_size(), free);
    if (Header* next = right()) next->set(next->size(), size, next->is_free());
  }
};

namespace {

// The list of a free block: that of the largest class that it can serve.
template <unsigned kCount>
unsigned list_of(const size_t (&classes)[kCount], size_t size) {
  unsigned list = kCount - 1;
  while (classes[list] > size) list--;
  return list;
}

}  // namespace

void Coalescing::add(Header* header) {
  if (header->size() < kMinimum) return;  // junk
  lists_[list_of(kClassSizes, header->size())].push_front(header->listed());
}

void Coalescing::remove(Header* header) {
  if (header->size() < kMinimum) return;
  lists_[list_of(kClassSizes, header->size())].remove(header->listed());
}

// The first block of the list for this size may be large enough; every block of a later list is. So
// no list is searched.
Coalescing::Header* Coalescing::find(size_t need) {
  unsigned list = list_of(kClassSizes, need);
  const FreeBlock* first = lists_[list].front();
  if (first == nullptr || Header::of(first)->size() < need) {
    do {
      list++;
    } while (list < kLists && lists_[list].empty());
    if (list == kLists) return nullptr;
  }
  auto* header = Header::of(lists_[list].front());
  remove(header);
  return header;
}

Coalescing::Header* Coalescing::new_arena(FreshPages& fresh) {
  char* page = pages.take(fresh);
  if (page == nullptr) return nullptr;
  ::new (page) ArenaHeader{Kind::coalescing, this};
  auto* header = Header::of(page + kFirst);
  header->set(kWhole, 0, true);
  return header;
}

// The tail becomes the block; the rest is listed again. [Podolsky13 "shave"]
void* Coalescing::shave(Header* header, size_t need) {
  const size_t rest = header->size() - need;
  if (rest == 0) {
    header->resize(need, false);
    return header->block();
  }
  Header* tail = header->at(static_cast<ptrdiff_t>(rest));
  tail->set(need, rest, false);
  tail->resize(need, false);
  header->set(rest, header->left_size(), true);
  add(header);
  return tail->block();
}

void* Coalescing::take(size_t size, FreshPages& fresh) {
  const size_t need = max_of(align_up(size + kHeader, 16), kMinimum);
  Header* header = find(need);
  if (header == nullptr) {
    collect();
    header = find(need);
  }
  if (header == nullptr) header = new_arena(fresh);
  if (header == nullptr) return nullptr;
  in_use_.store(in_use() + need, kRelaxed);
  return shave(header, need);
}

void Coalescing::put(void* block) {
  auto* header = Header::of(block);
  size_t size = header->size();
  in_use_.store(in_use() - size, kRelaxed);
  header->set(size, header->left_size(), true);  // a second free sees it even after joining
  if (Header* right = header->right(); right != nullptr && right->is_free()) {
    remove(right);
    size += right->size();
  }
  if (Header* left = header->left(); left != nullptr && left->is_free()) {
    remove(left);
    size += left->size();
    header = left;
  }
  header->resize(size, true);
  if (size < kWhole) return add(header);
  reinterpret_cast<ArenaHeader*>(page_of(block))->kind = Kind::none;
  pages.put(page_of(block));
}

void Coalescing::collect() {
  Wayward* first = wayward_.take_all();
  if (first != nullptr) popalls_.store(popalls() + 1, kRelaxed);
  while (first != nullptr) {
    if (Header::of(first)->is_free()) return report_invalid(first, "it was freed before");
    Wayward* next = first->next;
    put(first);
    first = next;
  }
}

size_t Coalescing::usable(const void* block) { return Header::of(block)->size() - kHeader; }

bool Coalescing::is_no_live_block(const void* block) {
  const auto offset = reinterpret_cast<uintptr_t>(block) % kPage;
  return offset < kFirst || offset % 16 != 0 || Header::of(block)->is_free();
}

bool Coalescing::check(const void* block) {
  size_t left = 0;
  bool left_is_free = false;
  size_t total = 0;
  auto* header = Header::of(page_of(block) + kFirst);
  for (; header != nullptr; header = header->right()) {
    if (header->size() == 0 || header->left_size() != left) return false;
    if (left_is_free && header->is_free()) return false;
    left = header->size();
    left_is_free = header->is_free();
    total += left;
  }
  return total == kWhole;
}

}  // namespace near::design::nalloc
