// The memory system and the address space by themselves: exact costs and counts, worked out by hand
// from the machine below, and a random comparison with a slow model.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "model/memory.h"
#include "model/pages.h"

namespace near::manycore {
namespace {

void* zeroed(size_t bytes) {
  void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return made == MAP_FAILED ? nullptr : made;
}

// Two sockets of four cores, a node each; the first core has two processors: 0 and 8.
Machine small_machine() {
  Machine machine{};
  machine.processors = 9;
  machine.cores = 8;
  machine.sockets = machine.nodes = 2;
  for (unsigned i = 0; i < 9; ++i) {
    machine.core_of[i] = static_cast<uint16_t>(i % 8);
    machine.socket_of[i] = machine.node_of[i] = static_cast<uint16_t>(i % 8 / 4);
  }
  machine.distance[0][0] = machine.distance[1][1] = 10;
  machine.distance[0][1] = machine.distance[1][0] = 20;
  machine.l1 = {size_t{4} * 2 * 64, 2, 1};   // 4 sets of 2 ways
  machine.l2 = {size_t{8} * 4 * 64, 4, 10};  // 8 sets of 4 ways
  machine.l3 = {size_t{64} * 8 * 64, 8, 100};
  machine.memory_local = 1000;
  machine.memory_remote = 3000;
  machine.transfer_core = 400;
  machine.transfer_socket = 2000;
  machine.invalidate = 50;
  machine.atomic = 7;
  machine.system_call = 11;
  machine.fault_small = 500;
  machine.fault_huge = 900;
  machine.zero_kibibyte = 2;
  machine.unmap_page = 3;
  machine.interrupt_send = 20;
  machine.interrupt_take = 30;
  return machine;
}

class MemoryTest : public testing::Test {
 protected:
  MemoryTest() { memory_.create(machine_, zeroed); }
  ~MemoryTest() override { memory_.check(); }

  // An access long after all others, so that no line is busy.
  Outcome access(unsigned processor, uintptr_t address, Access kind, unsigned node = 0) {
    now_ += 100'000;
    return memory_.access(processor, address, kind, node, now_);
  }
  Time cost(unsigned processor, uintptr_t address, Access kind, unsigned node = 0) {
    return access(processor, address, kind, node).cost;
  }

  Machine machine_ = small_machine();
  Memory memory_;
  Time now_ = 0;
};

TEST_F(MemoryTest, EachLevelHasItsCost) {
  EXPECT_EQ(cost(0, 0x1000, Access::kRead), 1000U);     // memory of the own node
  EXPECT_EQ(cost(0, 0x1000, Access::kRead), 1U);        // L1
  EXPECT_EQ(cost(0, 0x2000, Access::kRead, 1), 3000U);  // memory of the other node
  EXPECT_EQ(cost(0, 0x1008, Access::kWrite), 1U);       // the line is its own
  EXPECT_EQ(cost(0, 0x1010, Access::kUpdate), 1U + 7U);
}

TEST_F(MemoryTest, OneLineMoreThanTheWaysLeavesTheL1) {
  const uintptr_t stride = 4 * 64;  // the same set of the L1
  for (uintptr_t i = 0; i < 3; ++i) cost(0, i * stride, Access::kRead);
  EXPECT_EQ(cost(0, 2 * stride, Access::kRead), 1U);
  EXPECT_EQ(cost(0, 0, Access::kRead), 10U);  // the oldest went, the L2 has it
  EXPECT_EQ(cost(0, 2 * stride, Access::kRead), 1U);
  EXPECT_EQ(cost(0, stride, Access::kRead), 10U);
}

TEST_F(MemoryTest, OneLineMoreThanTheL2IsInTheL3) {
  const uintptr_t stride = 8 * 64;
  for (uintptr_t i = 0; i < 5; ++i) cost(0, i * stride, Access::kRead);
  const Outcome outcome = access(0, 0, Access::kRead);
  EXPECT_EQ(outcome.source, Source::kL3);
  EXPECT_EQ(outcome.cost, 100U);
  EXPECT_FALSE(outcome.coherence);
}

TEST_F(MemoryTest, AnIncrementByTurnsIsATransferEachTime) {
  cost(0, 0x40, Access::kUpdate);
  for (int i = 0; i < 100; ++i) {
    const unsigned processor = i % 2 == 0 ? 1 : 0;
    const Outcome outcome = access(processor, 0x40, Access::kUpdate);
    EXPECT_EQ(outcome.source, Source::kTransferNear);
    EXPECT_EQ(outcome.cost, 400U + 7U);
    EXPECT_TRUE(outcome.coherence);
  }
}

TEST_F(MemoryTest, AnotherSocketIsFarther) {
  cost(0, 0x40, Access::kWrite);
  const Outcome outcome = access(4, 0x40, Access::kWrite);
  EXPECT_EQ(outcome.source, Source::kTransferFar);
  EXPECT_EQ(outcome.cost, 2000U);
}

TEST_F(MemoryTest, ThreadsOfACoreShareItsCaches) {
  cost(0, 0x40, Access::kWrite);
  EXPECT_EQ(cost(8, 0x40, Access::kWrite), 1U);
}

TEST_F(MemoryTest, OneWriteTakesTheLineFromAllReaders) {
  for (unsigned i = 0; i < 8; ++i) cost(i, 0x40, Access::kRead);
  const Outcome write = access(3, 0x40, Access::kWrite);
  EXPECT_EQ(write.source, Source::kTransferFar);
  EXPECT_EQ(write.cost, 1U + 2000U + 50U);  // its own copy, the farthest reader, the upgrade
  EXPECT_EQ(cost(3, 0x40, Access::kWrite), 1U);
  for (unsigned i = 0; i < 8; ++i) {
    if (i == 3) continue;
    EXPECT_TRUE(access(i, 0x40, Access::kRead).coherence) << i;
  }
}

TEST_F(MemoryTest, AWriteToAnUnsharedCopyIsFree) {
  cost(0, 0x40, Access::kRead);
  EXPECT_EQ(cost(0, 0x40, Access::kWrite), 1U);
}

TEST_F(MemoryTest, ALineThatIsBusyIsWaitedFor) {
  memory_.access(0, 0x40, Access::kUpdate, 0, 0);  // until 1,007
  const Outcome second = memory_.access(1, 0x40, Access::kUpdate, 0, 100);
  EXPECT_EQ(second.waited, 907U);
  EXPECT_EQ(second.cost, 907U + 400U + 7U);  // until 1,414
  const Outcome third = memory_.access(2, 0x40, Access::kUpdate, 0, 200);
  EXPECT_EQ(third.waited, 1214U);
}

TEST_F(MemoryTest, ForgottenLinesComeFromMemory) {
  for (unsigned i = 0; i < 8; ++i) cost(i, 0x1040, Access::kRead);
  memory_.forget(0x1000, 0x1000);
  const Outcome outcome = access(0, 0x1040, Access::kRead);
  EXPECT_EQ(outcome.source, Source::kMemoryLocal);
  EXPECT_FALSE(outcome.coherence);
}

// A slow model: which cores hold a line is a set; there are no capacities.
TEST(MemoryRandom, AgreesWithASlowModel) {
  Machine machine = small_machine();
  machine.l1 = {size_t{1} << 16, 8, 1};  // no evictions
  machine.l2 = {size_t{1} << 18, 8, 10};
  Memory memory;
  memory.create(machine, zeroed);
  std::map<uint64_t, std::set<unsigned>> holders;
  std::map<uint64_t, bool> owned;
  std::mt19937 random(1);
  Time now = 0;
  for (int i = 0; i < 200'000; ++i) {
    const unsigned core = random() % 8;
    const uint64_t line = random() % 200;
    const bool write = random() % 3 == 0;
    auto& holds = holders[line];
    const bool hit = holds.contains(core) && (!write || owned[line]);
    now += 10'000;
    const Outcome outcome =
        memory.access(core, line * 64, write ? Access::kWrite : Access::kRead, 0, now);
    ASSERT_EQ(outcome.source == Source::kL1, hit) << i;
    const bool moved =
        outcome.source == Source::kTransferNear || outcome.source == Source::kTransferFar;
    std::set<unsigned> others = holds;
    others.erase(core);
    ASSERT_EQ(moved, !hit && !others.empty() && (write || owned[line])) << i;
    if (write || holds.empty()) {
      holds = {core};
      owned[line] = true;
    } else if (!hit) {
      holds.insert(core);
      owned[line] = false;
    }
  }
  memory.check();
}

// --- the address space ---

std::vector<uintptr_t> gone;
unsigned interrupts = 0;

class PagesTest : public testing::Test {
 protected:
  PagesTest() {
    gone.clear();
    interrupts = 0;
    pages_.create(machine_, zeroed, [](uintptr_t begin, size_t) { gone.push_back(begin); });
  }

  Pages::Caller caller(unsigned processor = 0) {
    now_ += 1'000'000;
    return {processor, now_, running_, [](unsigned, Time) { ++interrupts; }};
  }
  PageOutcome touch(unsigned processor, uintptr_t address) {
    now_ += 1'000'000;
    return pages_.touch(processor, address, now_);
  }

  static constexpr uintptr_t kBase = uintptr_t{1} << 40;
  Machine machine_ = small_machine();
  Pages pages_;
  bool running_[kMostProcessors] = {true, true, true};
  Time now_ = 0;
};

TEST_F(PagesTest, TheFirstTouchPlacesAPage) {
  pages_.map(caller(), kBase, 16 * kPageBytes);
  const PageOutcome first = touch(5, kBase + 100);
  EXPECT_TRUE(first.faulted);
  EXPECT_EQ(first.cost, 500U + 4 * 2U);
  EXPECT_EQ(first.node, 1U);
  const PageOutcome second = touch(0, kBase + 200);
  EXPECT_FALSE(second.faulted);
  EXPECT_EQ(second.cost, 0U);
  EXPECT_EQ(second.node, 1U);
  EXPECT_EQ(pages_.present_bytes(), kPageBytes);
}

TEST_F(PagesTest, OutsideMappingsThereIsNoFault) {
  EXPECT_FALSE(touch(5, 0x5000).faulted);
  EXPECT_EQ(pages_.node_of(0x5000), 1);
  EXPECT_EQ(pages_.present_bytes(), 0U);
}

TEST_F(PagesTest, PoliciesPlacePages) {
  pages_.map(caller(), kBase, 16 * kPageBytes);
  pages_.set_policy(kBase, 8 * kPageBytes, Policy::kBind, 2);
  pages_.set_policy(kBase + 8 * kPageBytes, 8 * kPageBytes, Policy::kInterleave, 3);
  EXPECT_EQ(touch(0, kBase).node, 1U);
  const unsigned even = touch(0, kBase + 8 * kPageBytes).node;
  EXPECT_EQ(touch(0, kBase + 9 * kPageBytes).node, 1 - even);
}

TEST_F(PagesTest, AHugeFaultMakesTwoMebibytesPresent) {
  const uintptr_t begin = kBase;
  pages_.map(caller(), begin, 2 * kHugeBytes);
  pages_.set_huge(begin, 2 * kHugeBytes, true);
  const PageOutcome fault = touch(0, begin + 5 * kPageBytes);
  EXPECT_TRUE(fault.huge);
  EXPECT_EQ(fault.cost, 900U + 2048 * 2U);
  EXPECT_FALSE(touch(0, begin + kHugeBytes - 1).faulted);
  EXPECT_TRUE(touch(0, begin + kHugeBytes).faulted);
}

TEST_F(PagesTest, AHugePageNeedsAllOfItsRange) {
  pages_.map(caller(), kBase, kHugeBytes - kPageBytes);
  pages_.set_huge(kBase, kHugeBytes - kPageBytes, true);
  EXPECT_FALSE(touch(0, kBase).huge);
}

TEST_F(PagesTest, ReturnedPagesInterruptRunningProcessors) {
  pages_.map(caller(), kBase, 4 * kPageBytes);
  EXPECT_EQ(interrupts, 0U);  // nothing was present
  touch(0, kBase);
  touch(0, kBase + kPageBytes);
  const CallOutcome discarded = pages_.discard(caller(), kBase, 4 * kPageBytes);
  EXPECT_EQ(discarded.pages, 2U);
  EXPECT_EQ(interrupts, 2U);  // processors 1 and 2
  EXPECT_EQ(discarded.cost, 11U + 2 * 3U + 2 * 20U);
  EXPECT_EQ(gone, (std::vector<uintptr_t>{kBase, kBase + kPageBytes}));
  EXPECT_TRUE(touch(0, kBase).faulted);
  EXPECT_EQ(pages_.most_present_bytes(), 2 * kPageBytes);
}

TEST_F(PagesTest, UnmappedAddressesHaveNoFaults) {
  pages_.map(caller(), kBase, 4 * kPageBytes);
  pages_.unmap(caller(), kBase + kPageBytes, kPageBytes);
  EXPECT_TRUE(touch(0, kBase).faulted);
  EXPECT_FALSE(touch(0, kBase + kPageBytes).faulted);
  EXPECT_TRUE(touch(0, kBase + 2 * kPageBytes).faulted);
}

TEST_F(PagesTest, MovedPagesKeepTheirNodes) {
  pages_.map(caller(), kBase, 2 * kPageBytes);
  touch(5, kBase);
  const uintptr_t to = kBase + 100 * kPageBytes;
  pages_.move(caller(), kBase, 2 * kPageBytes, to, 4 * kPageBytes);
  EXPECT_EQ(pages_.node_of(to), 1);
  EXPECT_EQ(pages_.node_of(kBase), -1);
  EXPECT_TRUE(touch(0, to + kPageBytes).faulted);
  EXPECT_EQ(pages_.present_bytes(), 2 * kPageBytes);
}

TEST_F(PagesTest, FaultsWaitForAnExclusiveHolder) {
  machine_.transfer_core = 1;  // of the lock's own line
  pages_.map(caller(), kBase, 4 * kPageBytes);
  touch(0, kBase);
  const Pages::Caller by = caller();
  const CallOutcome unmapped = pages_.unmap(by, kBase, kPageBytes);
  const PageOutcome fault = pages_.touch(1, kBase + kPageBytes, by.now + 1);
  EXPECT_EQ(fault.waited, unmapped.cost - 11U - 1U);  // entering the kernel is before the lock
}

// --- the description ---

TEST(MachineLines, WrongTextsAreNamed) {
  Machine machine;
  EXPECT_STREQ(parse_machine("nonsense 1\n", machine), "unknown name 'nonsense'");
  EXPECT_STREQ(parse_machine("processors 0\n", machine), "wrong value of 'processors'");
  EXPECT_STREQ(parse_machine("processors 513\n", machine), "wrong value of 'processors'");
  EXPECT_STREQ(parse_machine("processors 2x\n", machine), "wrong value of 'processors'");
  EXPECT_STREQ(parse_machine("processors 2\ncores 2\ncore_of 0 2\n", machine),
               "wrong value of 'core_of'");
  EXPECT_STREQ(parse_machine("processors 2\n", machine), "a name is missing or given twice");
  EXPECT_STREQ(parse_machine("l1 32768 0 1000\n", machine), "wrong value of 'l1'");
}

}  // namespace
}  // namespace near::manycore
