// hyaline: which thread frees what, and what keeps a batch. eras_test.cc tests what hyaline shares
// with ibr, hyaline_fork_test.cc has forks.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "born_objects.h"
#include "support/cases.h"

namespace near_test {
namespace {

using namespace near::reclaim;

struct Hyaline : testing::Test {
  void SetUp() override { live_objects = 0; }

  static std::vector<Born*> make(size_t objects) {
    std::vector<Born*> made(objects);
    for (Born*& each : made) each = new Born;
    return made;
  }
  static std::vector<handle<hyaline>> attach(domain<hyaline>& domain, size_t threads) {
    std::vector<handle<hyaline>> handles;
    for (size_t i = 0; i < threads; i++) handles.push_back(domain.attach());
    return handles;
  }
  static void retire(handle<hyaline>& handle, const std::vector<Born*>& objects) {
    for (Born* each : objects) handle.retire(each);
  }
  static void retire(handle<hyaline>& handle, size_t objects) {
    for (size_t i = 0; i < objects; i++) handle.retire(new Born);
  }
};

TEST_F(Hyaline, TheThreadThatLetsGoLastFrees) {
  domain<hyaline> domain(batches_of(64));
  auto writer = domain.attach();
  auto reader = domain.attach();
  auto other = domain.attach();
  retire(writer, 1);  // a thread looks at its first retirement
  (void)writer.pin();
  const auto objects = make(64);
  {
    auto last = reader.pin();
    {
      auto first = other.pin();
      retire(writer, objects);
    }
    (void)writer.pin();
    (void)other.pin();
    EXPECT_EQ(live_objects, 64);
    EXPECT_EQ(domain.collect().unreclaimed, 64u);
    EXPECT_EQ(domain.collect().unreclaimed_bytes, 64 * sizeof(Born));
    EXPECT_EQ(domain.collect().retired, 65u);
    EXPECT_EQ(reader.waiting(), 0u);
  }
  EXPECT_EQ(reader.waiting(), 64u);
  (void)writer.pin();
  EXPECT_EQ(live_objects, 64);
  (void)reader.pin();
  EXPECT_EQ(live_objects, 0);
  EXPECT_EQ(domain.collect().freed, 65u);
  EXPECT_EQ(domain.collect().unreclaimed, 0u);
  count_cases();
}

TEST_F(Hyaline, WhatNobodyHoldsIsFreedByItsOwner) {
  domain<hyaline> domain(batches_of(64));
  auto writer = domain.attach();
  auto idle = domain.attach();
  retire(writer, 65);
  (void)writer.pin();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

// One thread retires. Under other schemes it would free everything itself.
TEST_F(Hyaline, ReadersFreeWhatAnotherThreadRetires) {
  constexpr size_t kReaders = 4;
  constexpr size_t kRounds = 40;
  domain<hyaline> domain(batches_of(64));
  auto writer = domain.attach();
  auto readers = attach(domain, kReaders);
  retire(writer, 1);
  (void)writer.pin();
  std::vector<long> freed(kReaders);
  for (size_t round = 0; round < kRounds; round++) {
    auto& reader = readers[round % kReaders];
    const auto objects = make(64);
    {
      auto guard = reader.pin();
      retire(writer, objects);
      EXPECT_EQ(live_objects, 64);
    }
    (void)reader.pin();
    freed[round % kReaders] += 64 - live_objects;
  }
  for (const long each : freed) EXPECT_EQ(each, 64 * kRounds / kReaders);
  count_cases();
}

// The paper's reader would keep all 64 of a batch for one old object.
TEST_F(Hyaline, AnOldObjectInABatchKeepsNoOther) {
  constexpr int kBatches = 20;
  domain<hyaline> domain(batches_of(64));
  auto writer = domain.attach();
  auto reader = domain.attach();
  const auto old = make(kBatches);
  {
    auto guard = reader.pin();
    retire(writer, 3 * 64);  // eras pass
    const long held = live_objects;
    EXPECT_LE(held, kBatches + 2 * 64);
    for (Born* each : old) {
      retire(writer, 63);
      writer.retire(each);
    }
    (void)writer.pin();
    EXPECT_LE(live_objects, held + 64);
    for (const Born* each : old) EXPECT_TRUE(each->is_alive());
  }
  domain.barrier();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

// More threads with eras of their own than a look makes batches.
TEST_F(Hyaline, ManyStalledReadersOfDifferentErasKeepWhatTheyRead) {
  constexpr size_t kReaders = 30;
  domain<hyaline> domain(batches_of(64));
  auto writer = domain.attach();
  auto readers = attach(domain, kReaders);
  std::vector<std::atomic<Born*>> sources(kReaders);
  std::vector<const Born*> seen;
  {
    std::vector<std::unique_ptr<guard<hyaline>>> guards;
    for (size_t i = 0; i < kReaders; i++) {
      guards.emplace_back(new guard<hyaline>(readers[i].pin()));
      sources[i] = new Born;
      seen.push_back(guards.back()->protect(0, sources[i]));
      retire(writer, 64);
    }
    for (auto& each : sources) writer.retire(each.exchange(nullptr));
    retire(writer, 64);
    for (const Born* each : seen) EXPECT_TRUE(each->is_alive());
  }
  domain.barrier();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

// A look notes 256 lists; the threads of the records behind get their nodes all the same.
TEST_F(Hyaline, MoreThreadsHoldABatchThanALookNotes) {
  constexpr size_t kReaders = 300;
  domain<hyaline> domain(batches_of(64));
  auto writer = domain.attach();
  auto readers = attach(domain, kReaders);
  retire(writer, 1);
  (void)writer.pin();
  const auto objects = make(64);
  std::vector<std::unique_ptr<guard<hyaline>>> guards;
  for (auto& each : readers) guards.emplace_back(new guard<hyaline>(each.pin()));
  retire(writer, objects);
  for (size_t i = 0; i + 1 < kReaders; i++) {
    guards[i * 7 % kReaders].reset();
    EXPECT_EQ(live_objects, 64);
  }
  guards.clear();
  domain.barrier();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

TEST_F(Hyaline, ABarrierWaitsForWhatIsInFlight) {
  domain<hyaline> domain(batches_of(64));
  auto writer = domain.attach();
  auto reader = domain.attach();
  retire(writer, 1);
  (void)writer.pin();
  const auto objects = make(100);
  std::atomic<bool> has_ended{false};
  std::thread waiter;
  {
    auto guard = reader.pin();
    retire(writer, objects);
    waiter = std::thread([&] {
      domain.barrier();
      EXPECT_TRUE(has_ended);
      EXPECT_EQ(live_objects, 0);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_EQ(live_objects, 100);
    has_ended = true;
  }
  waiter.join();
  count_cases();
}

// What a reader received and does not free, since it does not pin, others take over.
TEST_F(Hyaline, OthersFreeWhatAnIdleReaderReceived) {
  domain<hyaline> domain(batches_of(64));
  auto writer = domain.attach();
  auto reader = domain.attach();
  retire(writer, 1);
  const auto objects = make(64);
  {
    auto guard = reader.pin();
    retire(writer, objects);
  }
  EXPECT_EQ(reader.waiting(), 64u);
  retire(writer, 64 * 40);
  (void)writer.pin();
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

TEST_F(Hyaline, ADomainMayEndWithObjectsThatReadersReceived) {
  {
    domain<hyaline> domain(batches_of(64));
    auto writer = domain.attach();
    auto reader = domain.attach();
    auto guard = reader.pin();
    retire(writer, 100);
  }
  EXPECT_EQ(live_objects, 0);
  count_cases();
}

}  // namespace
}  // namespace near_test
