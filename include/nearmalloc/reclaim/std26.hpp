// The interfaces of C++26's <hazard_pointer> and <rcu> for C++20: namespace near::reclaim::std26.
// A program written to the standard works if it names this namespace instead of `std`:
//
//   #include <nearmalloc/reclaim/std26.hpp>
//   namespace safe = near::reclaim::std26;
//
// The headers are std26/hazard_pointer.hpp and std26/rcu.hpp. What they promise is the draft's text
// (clause saferecl; papers P2530 and P2545); the tests check each requirement that can be checked.
//
// Where the draft leaves a choice, or says nothing:
//   - rcu_synchronize inside a region, and rcu_barrier inside a region or in a deleter, would wait
//     for themselves: they are reported, and abort. The draft lets rcu_barrier return inside a
//     region if all was retired before that; here it aborts.
//   - The first `lock` of a thread aborts if there is no memory; so do rcu_synchronize and
//     rcu_barrier.
//   - An object may be retired in one domain only, and the default domain is the only one.
//   - What is retired when the process exits is not destroyed. The domains never end, so objects of
//     static storage duration may use them in their destructors.
//   - How long an object waits: a thread looks for a grace period, or at the hazard pointers, when
//     it has retired options::batch_size objects. options.hpp says what becomes of the rest.
//   - In the child of a fork the regions of other threads end. Their hazard pointers go on to
//     protect, as the child may have the objects that own them.
//   - Signal handlers may use neither.
//   - The macros __cpp_lib_hazard_pointer and __cpp_lib_rcu are not defined: they speak of `std`.
#pragma once

#include "nearmalloc/reclaim/std26/hazard_pointer.hpp"
#include "nearmalloc/reclaim/std26/rcu.hpp"
