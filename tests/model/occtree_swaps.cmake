# Statements of occtree.hpp and occtree_repair.hpp in the wrong order.
near_model_swap(occtree impl/occtree_repair.hpp "a node loses its child before readers are told" [[
    node.set_version(before + occ_shrinking);
    node.set_child(side, inner);
]] [[
    node.set_child(side, inner);
    node.set_version(before + occ_shrinking);
]])
near_model_swap(occtree impl/occtree_repair.hpp "a rotation ends before the links are right" [[
    parent.replace_child(&node, &child);
    child.set_parent(&parent);
    node.set_version(before + occ_shrunk);
]] [[
    node.set_version(before + occ_shrunk);
    parent.replace_child(&node, &child);
    child.set_parent(&parent);
]])
near_model_swap(occtree impl/occtree_repair.hpp "the parent is looked at before it is locked" [[
    parent->lock.lock();
    if (!node.is_unlinked() && node.parent() == parent) return parent;
    parent->lock.unlock();
]] [[
    const bool is_parent = !node.is_unlinked() && node.parent() == parent;
    parent->lock.lock();
    if (is_parent) return parent;
    parent->lock.unlock();
]])
near_model_swap(occtree occtree.hpp "a missing child is looked for before the node is locked" [[
    at.node->lock.lock();
    if (test(at, nullptr) != passage::open) {
      at.node->lock.unlock();
      return false;
    }
]] [[
    const bool is_open = test(at, nullptr) == passage::open;
    at.node->lock.lock();
    if (!is_open) {
      at.node->lock.unlock();
      return false;
    }
]])
near_model_swap(occtree occtree.hpp "children are counted before the node is locked" [[
    node.lock.lock();
    const std::optional<Value> taken = node.value();
    if (taken) node.clear_value();
    const bool is_unlinked = taken && !node.has_both_children();
    if (is_unlinked) repairing.unlink(*parent, node);
    node.lock.unlock();
    if (is_unlinked) {
      repairing.climb(parent, impl::alternate(impl::occ_slot_up));
    } else {
      parent->lock.unlock();
    }
    return taken;
]] [[
    const std::optional<Value> taken = node.value();
    const bool is_unlinked = taken && !node.has_both_children();
    node.lock.lock();
    if (taken) node.clear_value();
    if (is_unlinked) repairing.unlink(*parent, node);
    node.lock.unlock();
    if (is_unlinked) {
      repairing.climb(parent, impl::alternate(impl::occ_slot_up));
    } else {
      parent->lock.unlock();
    }
    return taken;
]])
near_model_swap(occtree occtree.hpp "a child is tested before its version is read" [[
        const occ_version version = child->version();
        if ((version & impl::occ_shrinking) != 0) {
          child->await_shrunk(version);
          continue;
        }
        way = test(at, child);
        if (way == passage::open) {
          const turn next = steer(*child, version);
          const occ_side side = next == turn::left ? impl::left_side : impl::right_side;
          at = {child, version, side, next == turn::stop};
          if (at.is_match) return at;
          slot = impl::alternate(slot);
        }
]] [[
        way = test(at, child);
        const occ_version version = child->version();
        if ((version & impl::occ_shrinking) != 0) {
          child->await_shrunk(version);
          continue;
        }
        if (way == passage::open) {
          const turn next = steer(*child, version);
          const occ_side side = next == turn::left ? impl::left_side : impl::right_side;
          at = {child, version, side, next == turn::stop};
          if (at.is_match) return at;
          slot = impl::alternate(slot);
        }
]])
near_model_swap(occtree occtree.hpp "a value is read before the node is locked" [[
    const std::lock_guard locked(node.lock);
    if (node.is_unlinked()) return std::nullopt;
    const std::optional<Value> there = node.value();
    const std::optional<Value> fresh = f(there);
    if (fresh) node.set_value(*fresh);
    return update_result<Value>{there, fresh.has_value()};
]] [[
    const std::optional<Value> there = node.value();
    const std::lock_guard locked(node.lock);
    if (node.is_unlinked()) return std::nullopt;
    const std::optional<Value> fresh = f(there);
    if (fresh) node.set_value(*fresh);
    return update_result<Value>{there, fresh.has_value()};
]])
near_model_swap(occtree occtree.hpp "a node that was unlinked is updated" [[
    if (node.is_unlinked()) return std::nullopt;
    const std::optional<Value> there = node.value();
    const std::optional<Value> fresh = f(there);
    if (fresh) node.set_value(*fresh);
    return update_result<Value>{there, fresh.has_value()};
]] [[
    const std::optional<Value> there = node.value();
    const std::optional<Value> fresh = f(there);
    if (fresh) node.set_value(*fresh);
    return update_result<Value>{there, fresh.has_value()};
]])
near_model_swaps(occtree reclaim)
