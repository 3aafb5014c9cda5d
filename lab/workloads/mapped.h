// An array that no malloc provides: what a workload knows about its blocks must not itself be a
// load on the allocator that is measured.
//
// Invariant: resident in full from its construction on, all bytes zero; bytes() says how much, so
// that it can be taken off a resident set. Who may touch it: whoever the elements allow.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace workload {

template <typename T>
class Mapped {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit Mapped(size_t count) : count_(count) {
    void* const start = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (start == MAP_FAILED) {
      std::fprintf(stderr, "no memory for a table of %zu bytes\n", bytes());
      std::exit(1);
    }
    elements_ = static_cast<T*>(start);
  }
  ~Mapped() {
    if (elements_ != nullptr) munmap(elements_, bytes());
  }
  Mapped(Mapped&& other) noexcept : elements_(other.elements_), count_(other.count_) {
    other.elements_ = nullptr;
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  T& operator[](size_t index) { return elements_[index]; }
  const T& operator[](size_t index) const { return elements_[index]; }
  T* begin() { return elements_; }
  T* end() { return elements_ + count_; }
  size_t size() const { return count_; }
  size_t bytes() const { return (count_ == 0 ? 1 : count_) * sizeof(T); }

 private:
  T* elements_;
  size_t count_;
};

// Ends the program because of wrong options.
[[noreturn]] inline void refuse(const char* name, const char* reason) {
  std::fprintf(stderr, "%s: %s\n", name, reason);
  std::exit(2);
}

}  // namespace workload
