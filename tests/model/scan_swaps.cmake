# Statements of abtree_scan.hpp that are wrong or missing.
near_model_swap(scan impl/abtree_scan.hpp "a scan does not look again" [[
      if (collect(low, high) && is_unchanged(low, high)) return entries_;
]] [[
      if (collect(low, high)) return entries_;
]])
near_model_swap(scan impl/abtree_scan.hpp "a node is noted after its child was read" [[
      bool good = note(tree_.entry_, visit);
      const auto until = [&](const Place& at) {
        at.note_next(next);
        if (at.parent->linked_info() != noted_) good = false;
        good = good && (at.node->is_leaf() || note(*at.node, visit));
        return !good;
      };
      if (!good || !tree_.try_descend(guard_, *from, until, place) || !good) return false;
]] [[
      bool good = true;
      const auto until = [&](const Place& at) {
        at.note_next(next);
        good = good && note(*at.parent, visit);
        return !good;
      };
      if (!tree_.try_descend(guard_, *from, until, place) || !good) return false;
]])
near_model_swap(scan impl/abtree_scan.hpp "the second look compares only the nodes" [[
        return next < notes_.size() && notes_[next++] == note;
]] [[
        return next < notes_.size() && notes_[next++].node == note.node;
]])
near_model_swap(scan impl/abtree_scan.hpp "an update in progress is not noticed" [[
    if (tree_.scx_.is_in_progress(info)) {
      tree_.help(guard_, info);
      return false;
    }
]] [[
]])
near_model_swap(scan impl/abtree_scan.hpp "a parent is not looked at once its child is held" [[
        if (at.parent->linked_info() != noted_) good = false;
]] [[
]])
near_model_swaps(scan reclaim)
