// Sets of libcds under its hazard pointers and its buffered RCU, for comparison with the structures
// here: with the same work (set_work.h), Michael's list and hash map (with the same hash and as
// many buckets), Ellen's unbalanced tree, a skip list, and Bronson's AVL tree, which has RCU alone.
// Everything is libcds's default, except that the hash map does not count its elements and that the
// trees yield after a while of waiting, which more threads than processors need. All but the AVL
// tree allocate a node for every insert, even if the key is present.
// Invariant: libcds knows each thread that uses a set, from its Set::Thread on.
// Thread-safety: any thread that has a Set::Thread may call the set's operations.
// Source: github.com/khizmax/libcds, its public interface; [Michael02; Ellen10; Herlihy12 §14.4;
// Bronson10].
#include <cds/gc/hp.h>
#include <cds/init.h>
#include <cds/urcu/general_buffered.h>
// The structures' headers need those of the schemes.
#include <cds/container/bronson_avltree_map_rcu.h>
#include <cds/container/ellen_bintree_set_hp.h>
#include <cds/container/ellen_bintree_set_rcu.h>
#include <cds/container/michael_list_hp.h>
#include <cds/container/michael_list_rcu.h>
#include <cds/container/michael_set.h>
#include <cds/container/michael_set_rcu.h>
#include <cds/container/skip_list_set_hp.h>
#include <cds/container/skip_list_set_rcu.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "set_work.h"

namespace {

using reclaim_lab::Key;
namespace container = cds::container;

using HazardPointer = cds::gc::HP;
using BufferedRcu = cds::urcu::gc<cds::urcu::general_buffered<>>;

// libcds rounds up to the power of two above this number.
constexpr size_t kBelowBuckets = reclaim_lab::kBuckets - 1;

struct ListTraits : container::michael_list::traits {
  using less = std::less<Key>;
};

struct MapTraits : container::michael_set::traits {
  using hash = reclaim_lab::Hash;
  using item_counter = cds::atomicity::empty_item_counter;
};

struct SkipListTraits : container::skip_list::traits {
  using less = std::less<Key>;
};

struct EllenTraits : container::ellen_bintree::traits {
  struct key_extractor {
    void operator()(Key& key, const Key& element) const { key = element; }
  };
  using less = std::less<Key>;
  using back_off = cds::backoff::Default;
};

struct AvlTraits : container::bronson_avltree::traits {
  struct disposer {
    void operator()(const Key*) const {}
  };
  using less = std::less<Key>;
  using back_off = cds::backoff::Default;
};

// The map is one of pointers to values, and all its keys have one value, which is never freed: so
// it allocates nothing but its nodes.
class AvlTree : public container::BronsonAVLTreeMap<BufferedRcu, Key, Key*, AvlTraits> {
 public:
  bool insert(Key key) { return BronsonAVLTreeMap::insert(key, &value_); }

 private:
  static inline Key value_ = 0;
};

template <typename Native>
class Set {
 public:
  class Thread {
   public:
    Thread() { cds::threading::Manager::attachThread(); }
    ~Thread() { cds::threading::Manager::detachThread(); }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;
  };

  template <typename... Arguments>
  explicit Set(size_t keys, Arguments... arguments)
      : end_(static_cast<Key>(keys)), native_(arguments...) {}

  bool insert(Key key) { return native_.insert(key); }
  bool erase(Key key) { return native_.erase(key); }
  bool contains(Key key) { return native_.contains(key); }

  // Not all have iterators, and some of those visit keys that are erased and not yet unlinked.
  template <typename F>
  void for_each(F f) {
    for (Key key = 0; key < end_; ++key) {
      if (contains(key)) f(key);
    }
  }

 private:
  const Key end_;
  Native native_;
};

// libcds's default is room for the pointers that 100 threads protect.
template <typename Native>
auto make_scheme(size_t threads) {
  using Scheme = typename Native::gc;
  if constexpr (std::is_same_v<Scheme, HazardPointer>) {
    return HazardPointer(Native::c_nHazardPtrCount, std::max(threads + 1, size_t{100}));
  } else {
    return Scheme();
  }
}

template <typename Native, typename... Arguments>
void run_set(reclaim_lab::SetWork& work, Arguments... arguments) {
  const auto scheme = make_scheme<Native>(work.threads());
  const typename Set<Native>::Thread main_thread;  // the end of the set retires its nodes
  Set<Native> set(work.keys(), arguments...);
  work.run(set);
}

template <typename Scheme>
void run(reclaim_lab::SetWork& work, const std::string& structure) {
  using List = container::MichaelList<Scheme, Key, ListTraits>;
  if (structure == "list") {
    run_set<List>(work);
  } else if (structure == "hash_map") {
    run_set<container::MichaelHashSet<Scheme, List, MapTraits>>(work, kBelowBuckets, size_t{1});
  } else if (structure == "skip_list") {
    run_set<container::SkipListSet<Scheme, Key, SkipListTraits>>(work);
  } else {
    run_set<container::EllenBinTreeSet<Scheme, Key, Key, EllenTraits>>(work);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string structure = "list", scheme = "hazard_pointer";
  workload::Workload workload("cds_set", "inserts, erases and finds on a set of libcds");
  workload.choice("--structure", structure,
                  {"list", "hash_map", "skip_list", "ellen_tree", "avl_tree"},
                  "avl_tree has only buffered_rcu");
  workload.choice("--scheme", scheme, {"hazard_pointer", "buffered_rcu"}, "how libcds reclaims");
  reclaim_lab::SetWork work(workload);
  workload.parse(argc, argv);
  work.check();
  const bool avl = structure == "avl_tree";
  workload.require(!avl || scheme == "buffered_rcu", "--structure avl_tree has only buffered_rcu");
  workload.add("scheme", "libcds " + scheme);

  cds::Initialize();
  if (avl) {
    run_set<AvlTree>(work);
  } else if (scheme == "hazard_pointer") {
    run<HazardPointer>(work, structure);
  } else {
    run<BufferedRcu>(work, structure);
  }
  cds::Terminate();
  return workload.report();
}
