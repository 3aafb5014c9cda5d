// xenium's pins: a guard_ptr inside a region_guard, as its structures read. Its default `debra`
// ignores the region_guard; `debra_region` does not. Source: github.com/mpoeter/xenium.
#include <array>  // xenium uses this and assert, but does not include them
#include <cassert>
#include <xenium/reclamation/generic_epoch_based.hpp>
#include <xenium/reclamation/hazard_pointer.hpp>

#include "pin_subjects.h"

namespace reclaim_lab {
namespace {

namespace policy = xenium::policy;
namespace reclamation = xenium::reclamation;

template <typename Reclaimer>
struct Node : Reclaimer::template enable_concurrent_ptr<Node<Reclaimer>> {};

template <typename Reclaimer>
double pin(size_t times) {
  using Pointer = typename Reclaimer::template concurrent_ptr<Node<Reclaimer>>;
  Node<Reclaimer> node;
  const Pointer pointer(&node);
  return ns_each(times, [&] {
    [[maybe_unused]] const typename Reclaimer::region_guard region;
    typename Pointer::guard_ptr guard;
    guard.acquire(pointer, std::memory_order_acquire);  // pairs: none, no thread writes
    keep(guard.get());
  });
}

}  // namespace

std::vector<Subject> xenium_subjects() {
  using Debra = reclamation::debra<>;
  using Eager = policy::region_extension<reclamation::region_extension::eager>;
  return {{"xenium_debra", pin<Debra>},
          {"xenium_debra_region", pin<Debra::with<Eager>>},
          {"xenium_new_epoch_based", pin<reclamation::new_epoch_based<>>},
          {"xenium_hazard_pointer", pin<reclamation::hazard_pointer<>>}};
}

}  // namespace reclaim_lab
