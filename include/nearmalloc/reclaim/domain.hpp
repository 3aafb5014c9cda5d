// A stand-in in which every scheme leaks, with the interface of the real one.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>

namespace near::reclaim {

struct leaky {
  static constexpr bool protects_all = true;
};

struct options {};

template <class Scheme>
class domain;
template <class Scheme>
class handle;

template <class Scheme>
class guard {
 public:
  static constexpr bool protects_all = Scheme::protects_all;
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;
  void repin() noexcept {}
  template <class T>
  T* protect(unsigned, const std::atomic<T*>& source) noexcept {
    return source.load(std::memory_order_acquire);
  }
  void hold(unsigned, const void*) noexcept {}
  template <class T>
  void retire(T*) noexcept {}
  void retire(void*, void (*)(void*) noexcept) noexcept {}

 private:
  friend class handle<Scheme>;
  friend class domain<Scheme>;
  guard() = default;
};

template <class Scheme>
class handle {
 public:
  using guard_type = guard<Scheme>;
  guard_type pin() noexcept { return {}; }
};

template <class Scheme>
class domain {
 public:
  using scheme_type = Scheme;
  using guard_type = guard<Scheme>;
  using handle_type = handle<Scheme>;
  explicit domain(const options& = {}) {}
  domain(const domain&) = delete;
  domain& operator=(const domain&) = delete;
  handle_type attach() { return {}; }
  guard_type pin() noexcept { return {}; }
};

}  // namespace near::reclaim
