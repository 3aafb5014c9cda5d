// Every form of operator new and delete, the new-handler, and the __libc_* aliases, of the
// process's allocator.
// Invariant: all forms and aliases resolve into the object that serves malloc.
// Source: ISO C++20 [new.delete], [alloc.errors].
#include <dlfcn.h>
#include <sys/resource.h>

#include <climits>
#include <new>
#include <string>

#include "support/suite.h"

namespace near_test {
namespace {

using std::align_val_t;
using std::nothrow_t;

// A pair of allocation functions, plain and array, whose blocks are aligned to `alignment`.
struct NewForm {
  const char* name;
  void* (*allocate)(size_t size, align_val_t alignment);
  bool aligned;
};

const NewForm kNewForms[] = {
    {"new(n)", [](size_t n, align_val_t) { return ::operator new(n); }, false},
    {"new[](n)", [](size_t n, align_val_t) { return ::operator new[](n); }, false},
    {"new(n, nothrow)", [](size_t n, align_val_t) { return ::operator new(n, std::nothrow); },
     false},
    {"new[](n, nothrow)", [](size_t n, align_val_t) { return ::operator new[](n, std::nothrow); },
     false},
    {"new(n, align)", [](size_t n, align_val_t a) { return ::operator new(n, a); }, true},
    {"new[](n, align)", [](size_t n, align_val_t a) { return ::operator new[](n, a); }, true},
    {"new(n, align, nothrow)",
     [](size_t n, align_val_t a) { return ::operator new(n, a, std::nothrow); }, true},
    {"new[](n, align, nothrow)",
     [](size_t n, align_val_t a) { return ::operator new[](n, a, std::nothrow); }, true},
};

struct DeleteForm {
  const char* name;
  void (*release)(void* block, size_t size, align_val_t alignment);
  bool aligned;
};

const DeleteForm kDeleteForms[] = {
    {"delete(p)", [](void* p, size_t, align_val_t) { ::operator delete(p); }, false},
    {"delete[](p)", [](void* p, size_t, align_val_t) { ::operator delete[](p); }, false},
    {"delete(p, nothrow)", [](void* p, size_t, align_val_t) { ::operator delete(p, std::nothrow); },
     false},
    {"delete[](p, nothrow)",
     [](void* p, size_t, align_val_t) { ::operator delete[](p, std::nothrow); }, false},
    {"delete(p, n)", [](void* p, size_t n, align_val_t) { ::operator delete(p, n); }, false},
    {"delete[](p, n)", [](void* p, size_t n, align_val_t) { ::operator delete[](p, n); }, false},
    {"delete(p, align)", [](void* p, size_t, align_val_t a) { ::operator delete(p, a); }, true},
    {"delete[](p, align)", [](void* p, size_t, align_val_t a) { ::operator delete[](p, a); }, true},
    {"delete(p, n, align)", [](void* p, size_t n, align_val_t a) { ::operator delete(p, n, a); },
     true},
    {"delete[](p, n, align)",
     [](void* p, size_t n, align_val_t a) { ::operator delete[](p, n, a); }, true},
    {"delete(p, align, nothrow)",
     [](void* p, size_t, align_val_t a) { ::operator delete(p, a, std::nothrow); }, true},
    {"delete[](p, align, nothrow)",
     [](void* p, size_t, align_val_t a) { ::operator delete[](p, a, std::nothrow); }, true},
};

constexpr size_t kImpossible = size_t{PTRDIFF_MAX} - 4096;

class NewDelete : public testing::Test {
 protected:
  void TearDown() override {
    std::set_new_handler(nullptr);
    EXPECT_EQ(violations(), 0u);
  }
};

TEST_F(NewDelete, EveryFormOfNewWorksWithEveryFormOfDelete) {
  for (const NewForm& make : kNewForms) {
    for (const DeleteForm& destroy : kDeleteForms) {
      if (make.aligned != destroy.aligned) continue;
      for (size_t alignment = 16; alignment <= (make.aligned ? kMiB : 16); alignment *= 4) {
        for (const size_t size :
             {size_t{0}, size_t{1}, size_t{24}, size_t{100}, size_t{5000}, 100 * kKiB, 3 * kMiB}) {
          SCOPED_TRACE(std::string(make.name) + " " + destroy.name + " " + std::to_string(size));
          void* block = make.allocate(size, align_val_t{alignment});
          ASSERT_NE(block, nullptr);
          ASSERT_EQ(address(block) % (size >= alignment || make.aligned ? alignment : 8), 0u);
          ASSERT_GE(StandardNames::malloc_usable_size(block), size);
          fill(block, size, size);
          ASSERT_TRUE(holds(block, size, size));
          destroy.release(block, size, align_val_t{alignment});
          count_cases();
        }
      }
    }
  }
}

TEST_F(NewDelete, DeletingNullDoesNothing) {
  for (const DeleteForm& destroy : kDeleteForms) {
    destroy.release(nullptr, 8, align_val_t{64});
    count_cases();
  }
}

TEST_F(NewDelete, WithoutAHandlerTheThrowingFormsThrowAndTheOthersReturnNull) {
  for (const NewForm& make : kNewForms) {
    const bool nothrow = std::string(make.name).find("nothrow") != std::string::npos;
    bool threw = false;
    void* block = nullptr;
    try {
      block = make.allocate(kImpossible, align_val_t{64});
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    EXPECT_EQ(block, nullptr) << make.name;
    EXPECT_EQ(threw, !nothrow) << make.name;
    count_cases();
  }
}

int handler_calls = 0;

TEST_F(NewDelete, TheHandlerIsCalledUntilItIsNull) {
  for (const NewForm& make : kNewForms) {
    const bool nothrow = std::string(make.name).find("nothrow") != std::string::npos;
    handler_calls = 0;
    std::set_new_handler([] {
      if (++handler_calls == 5) std::set_new_handler(nullptr);
    });
    bool threw = false;
    try {
      EXPECT_EQ(make.allocate(kImpossible, align_val_t{64}), nullptr);
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    EXPECT_EQ(handler_calls, 5) << make.name;
    EXPECT_EQ(threw, !nothrow) << make.name;
    count_cases();
  }
}

struct OwnError : std::bad_alloc {
  int number = 77;
};

TEST_F(NewDelete, WhatTheHandlerThrowsReachesTheCallerOfAThrowingForm) {
  for (const NewForm& make : kNewForms) {
    const bool nothrow = std::string(make.name).find("nothrow") != std::string::npos;
    handler_calls = 0;
    std::set_new_handler([] {
      if (++handler_calls == 3) throw OwnError();
    });
    int caught = 0;
    try {
      EXPECT_EQ(make.allocate(kImpossible, align_val_t{64}), nullptr) << make.name;
    } catch (const OwnError& error) {
      caught = error.number;
    }
    EXPECT_EQ(handler_calls, 3) << make.name;
    EXPECT_EQ(caught, nothrow ? 0 : 77) << make.name;
    count_cases();
  }
}

rlimit data_limit{};

// The handler makes room (here: lifts a limit on its third call), and the allocation then succeeds.
void allocate_with_a_handler_that_makes_room(const NewForm& make) {
  getrlimit(RLIMIT_DATA, &data_limit);
  std::set_new_handler([] {
    if (++handler_calls == 3) setrlimit(RLIMIT_DATA, &data_limit);
  });
  handler_calls = 0;
  rlimit small = data_limit;
  small.rlim_cur = 256 * kMiB;
  setrlimit(RLIMIT_DATA, &small);
  void* block = make.allocate(1024 * kMiB, align_val_t{4096});
  std::exit(block != nullptr ? handler_calls : 100);
}

// In a process of its own, where nothing has been committed that the limit could not take back.
TEST_F(NewDelete, TheHandlerIsCalledUntilTheAllocationSucceeds) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const NewForm& make : kNewForms) {
    EXPECT_EXIT(allocate_with_a_handler_that_makes_room(make), testing::ExitedWithCode(3), "")
        << make.name;
    count_cases();
  }
}

struct alignas(256) Wide {
  char bytes[300];
};

TEST_F(NewDelete, NewExpressionsReportLengthsThatOverflow) {
  // GCC throws std::bad_array_new_length, which is one; Clang asks operator new[] for SIZE_MAX.
  volatile size_t count = SIZE_MAX / 4;
  EXPECT_THROW(delete[] new double[count], std::bad_alloc);
  EXPECT_THROW(delete[] new Wide[count], std::bad_alloc);
  count_cases(2);
}

TEST_F(NewDelete, OveralignedTypesAreAligned) {
  std::vector<Wide*> live;
  for (int i = 0; i < 1000; ++i) {
    live.push_back(i % 2 == 0 ? new Wide : new Wide[3]);
    EXPECT_EQ(address(live.back()) % 256, 0u);
    fill(live.back(), sizeof(Wide), address(live.back()));
  }
  for (size_t i = 0; i < live.size(); ++i) {
    EXPECT_TRUE(holds(live[i], sizeof(Wide), address(live[i])));
    if (i % 2 == 0) {
      delete live[i];
    } else {
      delete[] live[i];
    }
    count_cases();
  }
}

std::string object_of(const char* symbol) {
  void* function = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info{};
  if (function == nullptr || dladdr(function, &info) == 0) return "nothing";
  return info.dli_fname;
}

TEST_F(NewDelete, EveryNameOfTheSurfaceComesFromOneLibrary) {
  if (!on_nearmalloc()) GTEST_SKIP() << "the C and the C++ library share the names";
  const std::string ours = object_of("near_version");
  const char* const names[] = {"malloc",
                               "calloc",
                               "realloc",
                               "reallocarray",
                               "free",
                               "free_sized",
                               "free_aligned_sized",
                               "aligned_alloc",
                               "posix_memalign",
                               "memalign",
                               "valloc",
                               "pvalloc",
                               "malloc_usable_size",
                               "malloc_trim",
                               "mallopt",
                               "mallinfo",
                               "mallinfo2",
                               "malloc_stats",
                               "malloc_info",
                               "__libc_malloc",
                               "__libc_calloc",
                               "__libc_realloc",
                               "__libc_free",
                               "__libc_memalign",
                               "__libc_valloc",
                               "__libc_pvalloc",
                               "_Znwm",
                               "_Znam",
                               "_ZnwmRKSt9nothrow_t",
                               "_ZnamRKSt9nothrow_t",
                               "_ZnwmSt11align_val_t",
                               "_ZnamSt11align_val_t",
                               "_ZnwmSt11align_val_tRKSt9nothrow_t",
                               "_ZnamSt11align_val_tRKSt9nothrow_t",
                               "_ZdlPv",
                               "_ZdaPv",
                               "_ZdlPvRKSt9nothrow_t",
                               "_ZdaPvRKSt9nothrow_t",
                               "_ZdlPvm",
                               "_ZdaPvm",
                               "_ZdlPvSt11align_val_t",
                               "_ZdaPvSt11align_val_t",
                               "_ZdlPvmSt11align_val_t",
                               "_ZdaPvmSt11align_val_t",
                               "_ZdlPvSt11align_val_tRKSt9nothrow_t",
                               "_ZdaPvSt11align_val_tRKSt9nothrow_t"};
  for (const char* name : names) {
    EXPECT_EQ(object_of(name), ours) << name;
    count_cases();
  }
}

TEST_F(NewDelete, LibcAliasesServeFromTheSameHeap) {
  using Allocate = void* (*)(size_t);
  using Resize = void* (*)(void*, size_t);
  using AllocateTwo = void* (*)(size_t, size_t);
  const auto find = [](const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    EXPECT_NE(found, nullptr) << name;
    return found;
  };
  const auto libc_free = reinterpret_cast<void (*)(void*)>(find("__libc_free"));
  const auto libc_malloc = reinterpret_cast<Allocate>(find("__libc_malloc"));
  void* blocks[] = {
      libc_malloc(100),
      reinterpret_cast<AllocateTwo>(find("__libc_calloc"))(10, 10),
      reinterpret_cast<Resize>(find("__libc_realloc"))(libc_malloc(10), 100),
      reinterpret_cast<AllocateTwo>(find("__libc_memalign"))(64, 100),
      reinterpret_cast<Allocate>(find("__libc_valloc"))(100),
      reinterpret_cast<Allocate>(find("__libc_pvalloc"))(100),
  };
  for (size_t i = 0; i < std::size(blocks); ++i) {
    ASSERT_NE(blocks[i], nullptr);
    EXPECT_GE(StandardNames::malloc_usable_size(blocks[i]), 100u);
    if (on_nearmalloc()) {
      EXPECT_EQ(near_owns(blocks[i]), 1);
    }
    if (i % 2 == 0) {
      StandardNames::free(blocks[i]);
    } else {
      libc_free(blocks[i]);
    }
    count_cases();
  }
}

}  // namespace
}  // namespace near_test
