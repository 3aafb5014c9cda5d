// xenium's Harris-Michael list and hash map under xenium's reclamation, for comparison with the
// structures here: with the same work (set_work.h), the same hash and as many buckets. Every
// operation is inside a region_guard, as xenium advises. xenium's default `debra` ignores
// region_guards and enters its critical region with the first guard_ptr; `debra_region` uses them.
// Its list allocates a node for every insert, even if the key is present; its map is used so that
// it allocates only when it inserts.
// Thread-safety: any thread may call the set's operations.
// Source: github.com/mpoeter/xenium; the structures of [Michael02].
#include <array>  // xenium uses this and assert, and includes neither
#include <cassert>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <xenium/harris_michael_hash_map.hpp>
#include <xenium/harris_michael_list_based_set.hpp>
#include <xenium/reclamation/generic_epoch_based.hpp>
#include <xenium/reclamation/hazard_pointer.hpp>

#include "set_work.h"

namespace {

using reclaim_lab::Hash;
using reclaim_lab::kBuckets;
using reclaim_lab::Key;
namespace policy = xenium::policy;
namespace reclamation = xenium::reclamation;

using Debra = reclamation::debra<>;
using DebraRegion = Debra::with<policy::region_extension<reclamation::region_extension::eager>>;
using NewEpochBased = reclamation::new_epoch_based<>;
using HazardPointer = reclamation::hazard_pointer<>;

template <typename Reclaimer>
class List {
 public:
  bool insert(Key key) {
    [[maybe_unused]] const Region region;  // empty for hazard pointers
    return set_.emplace(key);
  }
  bool erase(Key key) {
    [[maybe_unused]] const Region region;  // empty for hazard pointers
    return set_.erase(key);
  }
  bool contains(Key key) {
    [[maybe_unused]] const Region region;  // empty for hazard pointers
    return set_.contains(key);
  }
  template <typename F>
  void for_each(F f) {
    for (const Key key : set_) f(key);
  }

 private:
  using Region = typename Reclaimer::region_guard;
  xenium::harris_michael_list_based_set<Key, policy::reclaimer<Reclaimer>> set_;
};

template <typename Reclaimer>
class HashMap {
 public:
  bool insert(Key key) {
    [[maybe_unused]] const Region region;  // empty for hazard pointers
    return map_.get_or_emplace_lazy(key, [key] { return key; }).second;
  }
  bool erase(Key key) {
    [[maybe_unused]] const Region region;  // empty for hazard pointers
    return map_.erase(key);
  }
  bool contains(Key key) {
    [[maybe_unused]] const Region region;  // empty for hazard pointers
    return map_.contains(key);
  }
  template <typename F>
  void for_each(F f) {
    for (const auto& entry : map_) f(entry.first);
  }

 private:
  using Region = typename Reclaimer::region_guard;
  xenium::harris_michael_hash_map<Key, Key, policy::reclaimer<Reclaimer>, policy::hash<Hash>,
                                  policy::buckets<kBuckets>>
      map_;
};

template <typename Set>
void run(reclaim_lab::SetWork& work) {
  const auto set = std::make_unique<Set>();
  work.run(*set);
}

template <typename Reclaimer>
void run(reclaim_lab::SetWork& work, const std::string& structure) {
  structure == "list" ? run<List<Reclaimer>>(work) : run<HashMap<Reclaimer>>(work);
}

}  // namespace

int main(int argc, char** argv) {
  std::string structure = "list", scheme = "debra";
  workload::Workload workload("xenium_set", "inserts, erases and finds on a set of xenium");
  workload.choice("--structure", structure, {"list", "hash_map"}, "both after Harris and Michael");
  workload.choice("--scheme", scheme,
                  {"debra", "debra_region", "new_epoch_based", "hazard_pointer"},
                  "how xenium reclaims");
  reclaim_lab::SetWork work(workload);
  workload.parse(argc, argv);
  work.check();
  workload.add("scheme", "xenium " + scheme);

  if (scheme == "debra") {
    run<Debra>(work, structure);
  } else if (scheme == "debra_region") {
    run<DebraRegion>(work, structure);
  } else if (scheme == "new_epoch_based") {
    run<NewEpochBased>(work, structure);
  } else {
    run<HazardPointer>(work, structure);
  }
  return workload.report();
}
