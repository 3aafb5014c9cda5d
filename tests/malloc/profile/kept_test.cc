// The file that is kept has the stacks of all sites, also after sites made room for others.
#include "profile/kept.h"

#include <gtest/gtest.h>
#include <nearmalloc/nearmalloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "front/thread.h"
#include "profile/profiler.h"
#include "profiling.h"
#include "stack_chain.h"
#include "support/cases.h"
#include "support/forked.h"

namespace near_test {
namespace {

using near::profile::Kept;
using near::profile::SiteCopy;
using near::profile::Table;

NEAR_NOINLINE void allocate_and_free(unsigned stacks) {
  for (unsigned i = 0; i < stacks; i++) near_free(chain_call<0>(i, 11, 50));
}

NEAR_NOINLINE void* leak() {
  void* block = near_malloc(60);
  static_cast<char*>(block)[0] = 1;
  return block;
}

// The number of the site of `leak`'s live block; 0 if it has no stack.
uint32_t site_of_leak() {
  SiteCopy copy;
  for (uint32_t i = 1; near::profile::copy_site(i, copy); i++) {
    if (copy.site.live.bytes == 60) return i;
  }
  return 0;
}

// All samples of stacks that had no room are those of site 0: nothing was folded.
void expect_no_fold() {
  EXPECT_EQ(near::profile::summary().sites, Table::kSites);
  SiteCopy copy;
  ASSERT_TRUE(near::profile::copy_site(0, copy));
  EXPECT_EQ(near::profile::summary().dropped_stacks, copy.site.samples);
  EXPECT_EQ(copy.site.depth, 0u);
}

class ProfileKept : public testing::Test {
 protected:
  ProfileKept() : file_(static_cast<int>(syscall(SYS_memfd_create, "kept", 0))), profiling_(1) {
    EXPECT_TRUE(near::profile::keep_in(file_, true));
    layout_ = static_cast<const Kept::Layout*>(
        mmap(nullptr, sizeof(Kept::Layout), PROT_READ, MAP_SHARED, file_, 0));
  }
  ~ProfileKept() override {
    near::profile::stop_keeping();
    munmap(const_cast<Kept::Layout*>(layout_), sizeof *layout_);
    close(file_);
  }

  void expect_equal() {
    EXPECT_EQ(layout_->header.changing, 0u);
    EXPECT_EQ(layout_->header.layout_bytes, sizeof *layout_);
    EXPECT_EQ(layout_->header.summary.sites, near::profile::summary().sites);
    SiteCopy copy;
    for (uint32_t i = 0; near::profile::copy_site(i, copy); i++) {
      const near::profile::Site& kept = layout_->sites[i];
      ASSERT_EQ(kept.depth, copy.site.depth) << i;
      EXPECT_EQ(kept.allocated.bytes, copy.site.allocated.bytes) << i;
      EXPECT_EQ(kept.live.bytes, copy.site.live.bytes) << i;
      EXPECT_EQ(kept.lifetimes, copy.site.lifetimes) << i;
      EXPECT_EQ(kept.lived_longest(), copy.site.lived_longest()) << i;
      for (unsigned frame = 0; frame < kept.depth; frame++) {
        EXPECT_EQ(layout_->addresses[layout_->frames[kept.stack + frame]], copy.frames[frame] - 1);
      }
      count_cases();
    }
  }

  int file_;
  Profiling profiling_;
  const Kept::Layout* layout_ = nullptr;
};

TEST_F(ProfileKept, HasTheStacksAfterSitesMadeRoom) {
  allocate_and_free(2000);
  const uint64_t dropped = near::profile::summary().dropped_stacks;
  EXPECT_GT(dropped, 1000u);
  expect_equal();
  void* block = leak();
  EXPECT_EQ(near::profile::summary().dropped_stacks, dropped);
  EXPECT_NE(site_of_leak(), 0u) << "though all sites were in use before";
  expect_equal();
  EXPECT_EQ(profile_totals().live.bytes, 60u);
  near_free(block);
  const ProfileTotals sums = profile_totals();
  EXPECT_EQ(sums.live.bytes, 0u);
  EXPECT_EQ(sums.allocated.bytes, sums.freed.bytes);
  EXPECT_EQ(sums.samples, near::profile::summary().samples);
}

// While the profile is written, others allocate.
ssize_t allocate_meanwhile(void* data, const char*, size_t bytes) {
  int& writings = *static_cast<int*>(data);
  if (writings++ < 2) {
    allocate_and_free(2000);
    expect_no_fold();
  }
  return static_cast<ssize_t>(bytes);
}

TEST_F(ProfileKept, NoNumberChangesWhileAProfileIsWritten) {
  allocate_and_free(600);
  int writings = 0;
  FILE* stream = fopencookie(&writings, "w", {nullptr, allocate_meanwhile, nullptr, nullptr});
  ASSERT_EQ(setvbuf(stream, nullptr, _IONBF, 0), 0);
  EXPECT_EQ(near_profile_write(stream, NEAR_PROFILE_JEPROF), 0);
  std::fclose(stream);
  EXPECT_GT(writings, 3);
  expect_equal();
  allocate_and_free(2000);
  EXPECT_LT(near::profile::summary().sites, Table::kSites);
  expect_equal();
}

TEST_F(ProfileKept, AChildOfForkHasNoWriter) {
  const near::profile::HeldSites held;
  allocate_and_free(2000);
  expect_no_fold();
  EXPECT_EQ(run_in_child([] {
              leak();
              return site_of_leak() != 0 ? 0 : 1;
            }),
            0);
  void* block = leak();
  EXPECT_EQ(site_of_leak(), 0u);
  near_free(block);
  count_cases(2);
}

// The same, with what a handler runs that interrupted the allocator.
TEST_F(ProfileKept, NorHasOneThatAHandlerForkedInTheAllocator) {
  if (NEAR_TSAN != 0) GTEST_SKIP() << "forks are not for TSan";
  const near::profile::HeldSites held;
  allocate_and_free(2000);
  expect_no_fold();
  near::current_heap->lock.lock();
  const int status = run_in_child([] {
    near::current_heap->lock.unlock();
    leak();
    return site_of_leak() != 0 ? 0 : 1;
  });
  near::current_heap->lock.unlock();
  EXPECT_EQ(status, 0);
  count_cases();
}

}  // namespace
}  // namespace near_test
