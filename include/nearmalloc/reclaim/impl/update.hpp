// What `update` of a map returns, and the operations that are made of it.
//
// Invariant: each is one update, so one step of the map.
// Thread-safety: that of the map.
#pragma once

#include <concepts>
#include <optional>

namespace near::reclaim {

template <class Value>
struct update_result {
  std::optional<Value> before;  // what was there; none: nothing
  bool changed = false;
};

namespace impl {

// True: inserted.
template <class Map>
bool upsert_by_update(Map& map, typename Map::guard_type& guard, const typename Map::key_type& key,
                      const typename Map::mapped_type& value) {
  using Value = typename Map::mapped_type;
  const auto always = [&](const std::optional<Value>&) { return std::optional<Value>(value); };
  return !map.update(guard, key, always).before.has_value();
}

// True: it was `expected`, and was replaced.
template <class Map>
bool replace_by_update(Map& map, typename Map::guard_type& guard, const typename Map::key_type& key,
                       const typename Map::mapped_type& expected,
                       const typename Map::mapped_type& value) {
  using Value = typename Map::mapped_type;
  const auto if_equal = [&](const std::optional<Value>& there) {
    return there == expected ? std::optional<Value>(value) : std::nullopt;
  };
  return map.update(guard, key, if_equal).changed;
}

}  // namespace impl
}  // namespace near::reclaim
