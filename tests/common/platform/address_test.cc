// What an address is, and what loaded objects define, on the real system.
#include "platform/address.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <thread>

#include "platform/loaded.h"
#include "support/cases.h"

namespace near_test {
namespace {

using near::LoadedObject;

int in_data = 0;

TEST(Address, WhatCannotBeReadIsKnownAndErrnoIsKept) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapped = mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  char* const second = static_cast<char*>(mapped) + page;
  ASSERT_EQ(mprotect(second, page, PROT_NONE), 0);
  errno = EFAULT;
  EXPECT_TRUE(near::is_readable(mapped));
  EXPECT_TRUE(near::is_readable(second - 8));
  EXPECT_FALSE(near::is_readable(second));
  ASSERT_EQ(munmap(mapped, 2 * page), 0);
  EXPECT_FALSE(near::is_readable(mapped));
  EXPECT_FALSE(near::is_readable(reinterpret_cast<void*>(16)));
  EXPECT_FALSE(near::is_readable(reinterpret_cast<void*>(0xdead0000beef0)));
  EXPECT_EQ(errno, EFAULT);
  count_cases(7);
}

TEST(Address, CodeAndStaticDataAreOfALoadedObject) {
  const auto on_heap = std::make_unique<int>();
  const int on_stack = 0;
  EXPECT_TRUE(near::is_in_loaded_object(&in_data));
  EXPECT_TRUE(near::is_in_loaded_object(reinterpret_cast<void*>(&getpid)));
  EXPECT_FALSE(near::is_in_loaded_object(on_heap.get()));
  EXPECT_FALSE(near::is_in_loaded_object(&on_stack));
  count_cases(4);
}

void expect_only_own_frames(const void* other_frame) {
  const volatile int on_stack = 0;
  const auto on_heap = std::make_unique<int>();
  EXPECT_TRUE(near::is_on_this_stack(const_cast<const int*>(&on_stack)));
  EXPECT_FALSE(near::is_on_this_stack(on_heap.get()));
  EXPECT_FALSE(near::is_on_this_stack(&in_data));
  EXPECT_FALSE(near::is_on_this_stack(other_frame));
  count_cases(4);
}

TEST(Address, AThreadKnowsItsOwnFrames) {
  int frame = 0;
  expect_only_own_frames(nullptr);
  std::thread(expect_only_own_frames, &frame).join();
}

TEST(LoadedObjectTest, TheRuntimeThatThisProgramIsLinkedToDefinesItsNames) {
  const LoadedObject runtime = LoadedObject::defining("__cxa_allocate_exception", &in_data);
  void* const expected = dlsym(RTLD_DEFAULT, "_ZSt15get_new_handlerv");
  ASSERT_NE(expected, nullptr);
  EXPECT_EQ(runtime.symbol("_ZSt15get_new_handlerv"), expected);
  EXPECT_NE(runtime.symbol("_ZTISt9bad_alloc"), nullptr);
  EXPECT_EQ(runtime.symbol("no_such_name"), nullptr);
  EXPECT_EQ(runtime.symbol("malloc"), nullptr) << "a name that it needs is none that it defines";
  EXPECT_EQ(LoadedObject::defining("no_such_name", &in_data).symbol("malloc"), nullptr);
  count_cases(5);
}

TEST(LoadedObjectTest, AFunctionWithSeveralImplementationsIsTheOneForThisProcessor) {
  const LoadedObject libc = LoadedObject::defining("gnu_get_libc_version", &in_data);
  void* const opened = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  ASSERT_NE(opened, nullptr);
  EXPECT_TRUE(libc.is_named("libc.so.6"));
  EXPECT_FALSE(libc.is_named("libc.so"));
  for (const char* name : {"memcpy", "strlen", "getpid"}) {
    EXPECT_EQ(libc.symbol(name), dlsym(opened, name)) << name;
  }
  dlclose(opened);
  count_cases(5);
}

}  // namespace
}  // namespace near_test
