// What the C++26 draft requires of the types in <hazard_pointer> and <rcu>, clause by clause, as
// far as a compiler can check it. The clauses' names are those of the draft.
#include <atomic>
#include <concepts>
#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "nearmalloc/reclaim/std26.hpp"

namespace near_test {
namespace {

namespace safe = near::reclaim::std26;
using near::reclaim::impl::protectable;

struct Hazard : safe::hazard_pointer_obj_base<Hazard> {};
struct Rcu : safe::rcu_obj_base<Rcu> {};

// hazard.pointer.syn
static_assert(std::same_as<decltype(safe::make_hazard_pointer()), safe::hazard_pointer>);
static_assert(!noexcept(safe::make_hazard_pointer()));
static_assert(std::same_as<decltype(safe::swap),
                           void(safe::hazard_pointer&, safe::hazard_pointer&) noexcept>);
static_assert(std::same_as<safe::hazard_pointer_obj_base<Hazard>,
                           safe::hazard_pointer_obj_base<Hazard, std::default_delete<Hazard>>>);

// saferecl.hp.base: protected members, and `retire` whose only argument has a default
template <class Base>
struct Opened : Base {
  Opened() = default;
  Opened(const Opened&) = default;
  Opened(Opened&&) = default;
  Opened& operator=(const Opened&) = default;
  Opened& operator=(Opened&&) = default;
};
template <class Base>
concept HasProtectedMembers =
    !std::is_default_constructible_v<Base> && !std::is_copy_constructible_v<Base> &&
    !std::is_move_constructible_v<Base> && !std::is_destructible_v<Base> &&
    !std::is_copy_assignable_v<Base> && !std::is_move_assignable_v<Base> &&
    std::copyable<Opened<Base>> && std::default_initializable<Opened<Base>>;
static_assert(HasProtectedMembers<safe::hazard_pointer_obj_base<Hazard>>);
static_assert(noexcept(std::declval<Hazard&>().retire()));
static_assert(noexcept(std::declval<Hazard&>().retire(std::default_delete<Hazard>())));
static_assert(std::same_as<decltype(&safe::hazard_pointer_obj_base<Hazard>::retire),
                           void (safe::hazard_pointer_obj_base<Hazard>::*)(
                               std::default_delete<Hazard>) noexcept>);
struct Incomplete;
static_assert(sizeof(safe::hazard_pointer_obj_base<Incomplete>) == 2 * sizeof(void*));

// saferecl.hp.general: hazard-protectable
struct Plain {};
struct Derived : Hazard {};
struct Hidden : private safe::hazard_pointer_obj_base<Hidden> {};
struct Virtual : virtual safe::hazard_pointer_obj_base<Virtual> {};
struct Two : safe::hazard_pointer_obj_base<Two>, safe::hazard_pointer_obj_base<Hazard> {};
struct TwoDeleters : safe::hazard_pointer_obj_base<TwoDeleters>,
                     safe::hazard_pointer_obj_base<TwoDeleters, void (*)(TwoDeleters*)> {};
struct OfAnother : safe::hazard_pointer_obj_base<Hazard> {};
struct Both : safe::hazard_pointer_obj_base<Both>, safe::rcu_obj_base<Both> {};
static_assert(protectable<Hazard, safe::hazard_pointer_obj_base>);
static_assert(protectable<Both, safe::hazard_pointer_obj_base>);
static_assert(protectable<Both, safe::rcu_obj_base>);
static_assert(!protectable<Plain, safe::hazard_pointer_obj_base>);
static_assert(!protectable<int, safe::hazard_pointer_obj_base>);
static_assert(!protectable<Derived, safe::hazard_pointer_obj_base>);
static_assert(!protectable<Hidden, safe::hazard_pointer_obj_base>);
static_assert(!protectable<Virtual, safe::hazard_pointer_obj_base>);
static_assert(!protectable<Two, safe::hazard_pointer_obj_base>);
static_assert(!protectable<TwoDeleters, safe::hazard_pointer_obj_base>);
static_assert(!protectable<OfAnother, safe::hazard_pointer_obj_base>);
static_assert(!protectable<Rcu, safe::hazard_pointer_obj_base>);

// saferecl.hp.holder.general
using Holder = safe::hazard_pointer;
using Source = const std::atomic<Hazard*>&;
static_assert(std::is_nothrow_default_constructible_v<Holder>);
static_assert(std::is_nothrow_move_constructible_v<Holder>);
static_assert(std::is_nothrow_move_assignable_v<Holder>);
static_assert(std::is_nothrow_destructible_v<Holder>);
static_assert(!std::is_copy_constructible_v<Holder> && !std::is_copy_assignable_v<Holder>);
static_assert(std::same_as<decltype(&Holder::empty), bool (Holder::*)() const noexcept>);
static_assert(std::same_as<decltype(&Holder::swap), void (Holder::*)(Holder&) noexcept>);
static_assert(
    std::same_as<decltype(std::declval<Holder&>().protect(std::declval<Source>())), Hazard*>);
static_assert(noexcept(std::declval<Holder&>().protect(std::declval<Source>())));
static_assert(std::same_as<decltype(std::declval<Holder&>().try_protect(std::declval<Hazard*&>(),
                                                                        std::declval<Source>())),
                           bool>);
static_assert(noexcept(std::declval<Holder&>().try_protect(std::declval<Hazard*&>(),
                                                           std::declval<Source>())));
static_assert(noexcept(std::declval<Holder&>().reset_protection(std::declval<const Hazard*>())));
static_assert(noexcept(std::declval<Holder&>().reset_protection(nullptr)));
static_assert(noexcept(std::declval<Holder&>().reset_protection()));
static_assert(std::is_nothrow_swappable_v<Holder>);

// rcu.syn, saferecl.rcu.domain.general
using Domain = safe::rcu_domain;
static_assert(std::same_as<decltype(safe::rcu_default_domain), Domain&() noexcept>);
static_assert(std::same_as<decltype(safe::rcu_synchronize), void(Domain&) noexcept>);
static_assert(std::same_as<decltype(safe::rcu_barrier), void(Domain&) noexcept>);
static_assert(noexcept(safe::rcu_synchronize()) && noexcept(safe::rcu_barrier()));
static_assert(!std::is_default_constructible_v<Domain>);
static_assert(!std::is_copy_constructible_v<Domain> && !std::is_copy_assignable_v<Domain>);
static_assert(!std::is_move_constructible_v<Domain> && !std::is_move_assignable_v<Domain>);
static_assert(std::same_as<decltype(&Domain::lock), void (Domain::*)() noexcept>);
static_assert(std::same_as<decltype(&Domain::try_lock), bool (Domain::*)() noexcept>);
static_assert(std::same_as<decltype(&Domain::unlock), void (Domain::*)() noexcept>);
static_assert(std::constructible_from<std::scoped_lock<Domain>, Domain&>);
static_assert(std::constructible_from<std::unique_lock<Domain>, Domain&, std::try_to_lock_t>);

// saferecl.rcu.base
struct StatefulDeleter {
  int state = 0;
  void operator()(auto* object) const { delete object; }
};
struct HeavyDeleter : StatefulDeleter {
  HeavyDeleter() = default;
  HeavyDeleter(const HeavyDeleter& other) : StatefulDeleter(other) {}
  HeavyDeleter& operator=(const HeavyDeleter&) = default;
};
struct RcuStateful : safe::rcu_obj_base<RcuStateful, StatefulDeleter> {};
static_assert(HasProtectedMembers<safe::rcu_obj_base<Rcu>>);
static_assert(
    std::same_as<safe::rcu_obj_base<Rcu>, safe::rcu_obj_base<Rcu, std::default_delete<Rcu>>>);
static_assert(
    std::same_as<decltype(&safe::rcu_obj_base<Rcu>::retire),
                 void (safe::rcu_obj_base<Rcu>::*)(std::default_delete<Rcu>, Domain&) noexcept>);
static_assert(noexcept(std::declval<Rcu&>().retire()));
static_assert(noexcept(std::declval<RcuStateful&>().retire(StatefulDeleter{},
                                                           safe::rcu_default_domain())));
static_assert(std::is_trivially_copyable_v<safe::rcu_obj_base<Rcu>>);
static_assert(std::is_trivially_copyable_v<safe::rcu_obj_base<RcuStateful, StatefulDeleter>>);
static_assert(!std::is_trivially_copyable_v<safe::rcu_obj_base<Rcu, HeavyDeleter>>);
static_assert(sizeof(safe::rcu_obj_base<Incomplete>) == 2 * sizeof(void*));

// saferecl.rcu.general: rcu-protectable
struct RcuHidden : private safe::rcu_obj_base<RcuHidden> {};
struct RcuVirtual : virtual safe::rcu_obj_base<RcuVirtual> {};
struct RcuTwo : safe::rcu_obj_base<RcuTwo>, safe::rcu_obj_base<Rcu> {};
static_assert(protectable<Rcu, safe::rcu_obj_base>);
static_assert(!protectable<Hazard, safe::rcu_obj_base>);
static_assert(!protectable<RcuHidden, safe::rcu_obj_base>);
static_assert(!protectable<RcuVirtual, safe::rcu_obj_base>);
static_assert(!protectable<RcuTwo, safe::rcu_obj_base>);

// saferecl.rcu.domain.func: rcu_retire has defaults, and may throw
template <class T, class... Arguments>
concept Retires = requires(T* object, Arguments... arguments) {
  { safe::rcu_retire(object, arguments...) } -> std::same_as<void>;
};
static_assert(Retires<int>);
static_assert(Retires<int, StatefulDeleter>);
static_assert(Retires<const Plain, void (*)(const Plain*)>);
static_assert(!noexcept(safe::rcu_retire(std::declval<int*>())));
static_assert(requires(int* object) {
  safe::rcu_retire(object, StatefulDeleter{}, safe::rcu_default_domain());
});

}  // namespace
}  // namespace near_test
