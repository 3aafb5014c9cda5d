// liburcu's lock-free hash table under its flavour `memb`, the one that its authors prefer, for
// comparison with the structures here: with the same work (set_work.h), the same hash and as many
// buckets; it does not resize. As a list it has one bucket, which is an ordered lock-free list;
// liburcu's RCU lists would need a lock for updates. A thread of call_rcu frees what is erased,
// beside the threads of the work. Every insert allocates a node, even if the key is present.
// Invariant: a bucket is ordered by the reversed bits of the keys' hashes.
// Thread-safety: any thread that has a Table::Thread may call the table's operations.
// Source: liburcu.org, its public interface; its table is that of [Shalev06; Michael02]. The macro
// _LGPL_SOURCE, which makes pins inline, is for code under a licence that is compatible with the
// LGPL, as this project's is.
#include <urcu/rculfhash.h>
#include <urcu/urcu-memb.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "set_work.h"

namespace {

using reclaim_lab::Key;

struct Node : cds_lfht_node, rcu_head {
  explicit Node(Key of) : key(of) {}
  const Key key;
};

class Reader {
 public:
  Reader() { urcu_memb_read_lock(); }
  ~Reader() { urcu_memb_read_unlock(); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
};

struct KeyItself {
  size_t operator()(Key key) const { return static_cast<size_t>(key); }
};

template <typename Hash>
class Table {
 public:
  class Thread {
   public:
    Thread() { urcu_memb_register_thread(); }
    ~Thread() { urcu_memb_unregister_thread(); }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;
  };

  explicit Table(size_t buckets)
      : table_(cds_lfht_new_flavor(buckets, buckets, buckets, 0, &urcu_memb_flavor, nullptr)) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() {
    const Thread thread;
    for_each([this](Key key) { erase(key); });
    urcu_memb_barrier();
    cds_lfht_destroy(table_, nullptr);
  }

  bool insert(Key key) {
    auto node = std::make_unique<Node>(key);
    const Reader reader;
    if (cds_lfht_add_unique(table_, Hash()(key), equals, &key, node.get()) != node.get()) {
      return false;
    }
    node.release();
    return true;
  }

  bool erase(Key key) {
    const Reader reader;
    cds_lfht_node* const node = find(key);
    if (node == nullptr || cds_lfht_del(table_, node) != 0) return false;
    urcu_memb_call_rcu(static_cast<Node*>(node), free_node);
    return true;
  }

  bool contains(Key key) {
    const Reader reader;
    return find(key) != nullptr;
  }

  template <typename F>
  void for_each(F f) {
    const Reader reader;
    cds_lfht_iter at;
    for (cds_lfht_first(table_, &at); at.node != nullptr; cds_lfht_next(table_, &at)) {
      f(static_cast<Node*>(at.node)->key);
    }
  }

 private:
  static int equals(cds_lfht_node* node, const void* key) {
    return static_cast<Node*>(node)->key == *static_cast<const Key*>(key) ? 1 : 0;
  }

  static void free_node(rcu_head* node) { delete static_cast<Node*>(node); }

  // Requires a Reader while the result is used.
  cds_lfht_node* find(Key key) {
    cds_lfht_iter found;
    cds_lfht_lookup(table_, Hash()(key), equals, &key, &found);
    return cds_lfht_iter_get_node(&found);
  }

  cds_lfht* const table_;
};

template <typename Hash>
void run(reclaim_lab::SetWork& work, size_t buckets) {
  Table<Hash> table(buckets);
  work.run(table);
}

}  // namespace

int main(int argc, char** argv) {
  std::string structure = "list";
  workload::Workload workload("urcu_set", "inserts, erases and finds on a set of liburcu");
  workload.choice("--structure", structure, {"list", "hash_map"}, "list: a table of one bucket");
  reclaim_lab::SetWork work(workload);
  workload.parse(argc, argv);
  work.check();
  workload.add("scheme", "liburcu memb");

  structure == "list" ? run<KeyItself>(work, 1)
                      : run<reclaim_lab::Hash>(work, reclaim_lab::kBuckets);
  return workload.report();
}
