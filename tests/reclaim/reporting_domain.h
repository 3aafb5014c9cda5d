// A domain under QSBR for tests that know no reports: a handle reports a quiescent state before
// each outermost pin, and a pin without a handle attaches its thread for as long as the guard
// lives.
//
// Invariant: no thread is attached without reporting at each of its pins.
// Thread-safety: that of a domain.
#pragma once

#include <optional>
#include <utility>

#include "nearmalloc/reclaim/domain.hpp"

namespace near_test {

class ReportingDomain {
 public:
  class guard_type {
   public:
    static constexpr bool protects_all = true;

    explicit guard_type(ReportingDomain& home)
        : handle_(home.domain_.attach()), guard_(handle_->pin()) {}
    guard_type(near::reclaim::handle<near::reclaim::qsbr>& handle, unsigned& open)
        : open_(&open), guard_(reported(handle, open).pin()) {
      open++;
    }
    ~guard_type() {
      if (open_ != nullptr) --*open_;
    }
    guard_type(const guard_type&) = delete;
    guard_type& operator=(const guard_type&) = delete;

    template <class T>
    T* protect(unsigned slot, const near::Atomic<T*>& source) {
      return guard_.protect(slot, source);
    }
    void hold(unsigned slot, const void* object) { guard_.hold(slot, object); }
    template <class... Words>
    void retire(Words... words) {
      guard_.retire(words...);
    }

   private:
    static near::reclaim::handle<near::reclaim::qsbr>& reported(
        near::reclaim::handle<near::reclaim::qsbr>& handle, unsigned open) {
      if (open == 0) handle.quiescent();
      return handle;
    }

    unsigned* open_ = nullptr;
    std::optional<near::reclaim::handle<near::reclaim::qsbr>> handle_;
    near::reclaim::guard<near::reclaim::qsbr> guard_;
  };

  class handle_type {
   public:
    explicit handle_type(ReportingDomain& home) : handle_(home.domain_.attach()) {}
    guard_type pin() { return guard_type(handle_, open_); }

   private:
    near::reclaim::handle<near::reclaim::qsbr> handle_;
    unsigned open_ = 0;  // guards of this handle
  };

  explicit ReportingDomain(const near::reclaim::options& settings = {}) : domain_(settings) {}
  handle_type attach() { return handle_type(*this); }
  guard_type pin() { return guard_type(*this); }
  void barrier() { domain_.barrier(); }
  near::reclaim::statistics collect() const { return domain_.collect(); }

 private:
  near::reclaim::domain<near::reclaim::qsbr> domain_;
};

}  // namespace near_test
