// Heaps bound to a NUMA node, or interleaved over all of them, for C++: the heap, a memory resource
// for std::pmr, and an allocator for containers. nearmalloc.h has the contract.
//
//   near::heap heap = near::heap::on_node(1);
//   std::vector<int, near::heap_allocator<int>> numbers{near::heap_allocator<int>(heap)};
//
//   near::heap_resource spread{near::heap::interleaved()};
//   std::pmr::vector<int> more{&spread};
//
// Thread-safety: any thread. A resource owns its heap; an allocator only names one, which must
// outlive all allocation by it. Blocks outlive their heap.
#pragma once

#include <cerrno>
#include <cstddef>
#include <limits>
#include <memory>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "nearmalloc/nearmalloc.h"

namespace near {

// What a heap does if its node has no memory left: other nodes serve, or none (std::bad_alloc).
enum class placement : unsigned { advisory = 0, strict = NEAR_STRICT };

// Any thread may use one. One that was moved from may be assigned to or destroyed, nothing else.
class heap {
 public:
  // `node`: the kernel's number. Throws std::invalid_argument if there is none, std::bad_alloc.
  static heap on_node(int node, placement how = placement::advisory) {
    return heap(near_heap_create_on_node(node, static_cast<unsigned>(how)));
  }

  // A block of each node in turn.
  static heap interleaved() { return heap(near_heap_create_interleaved()); }

  // Throws std::bad_alloc. `alignment` is a power of two.
  [[nodiscard]] void* allocate(size_t bytes, size_t alignment = alignof(std::max_align_t)) {
    void* block = near_heap_aligned_alloc(handle_.get(), alignment, bytes);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }

  // A block of any heap.
  static void deallocate(void* block) noexcept { near_free(block); }

 private:
  struct destroy {
    void operator()(near_heap* handle) const noexcept { near_heap_destroy(handle); }
  };

  explicit heap(near_heap* handle) : handle_(handle) {
    if (handle != nullptr) return;
    if (errno == EINVAL) throw std::invalid_argument("there is no such NUMA node");
    throw std::bad_alloc();
  }

  std::unique_ptr<near_heap, destroy> handle_;
};

// Equal to itself alone, as the standard's own resources are, though any of them could free what
// another handed out.
class heap_resource final : public std::pmr::memory_resource {
 public:
  explicit heap_resource(heap&& source) noexcept : heap_(std::move(source)) {}

 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    return heap_.allocate(bytes, alignment);
  }
  void do_deallocate(void* block, size_t, size_t) override { heap::deallocate(block); }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  heap heap_;
};

// A container that is moved or swapped takes its heap along; one that is copied starts on the same.
template <typename T>
class heap_allocator {
 public:
  using value_type = T;
  using propagate_on_container_move_assignment = std::true_type;
  using propagate_on_container_swap = std::true_type;
  using is_always_equal = std::true_type;

  explicit heap_allocator(heap& source) noexcept : heap_(&source) {}
  template <typename U>
  heap_allocator(const heap_allocator<U>& other) noexcept : heap_(other.source()) {}

  [[nodiscard]] T* allocate(size_t count) {
    if (count > std::numeric_limits<size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(heap_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* block, size_t) noexcept { heap::deallocate(block); }

  heap* source() const noexcept { return heap_; }

  // Any of them frees what another allocated.
  template <typename U>
  bool operator==(const heap_allocator<U>&) const noexcept {
    return true;
  }

 private:
  heap* heap_;
};

}  // namespace near
