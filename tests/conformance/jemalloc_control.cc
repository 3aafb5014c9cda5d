// The functions mallctl* and malloc_stats_print.
// Source: jemalloc(3) of version 5.3; docs/jemalloc.md.
#include <cstring>
#include <string>
#include <thread>

#include "support/jemalloc_names.h"
#include "support/suite.h"

namespace near_test {
namespace {

uint64_t refresh() {
  uint64_t epoch = 1;
  size_t length = sizeof epoch;
  EXPECT_EQ(mallctl("epoch", &epoch, &length, &epoch, sizeof epoch), 0);
  return epoch;
}

size_t fresh(const char* name) {
  refresh();
  return control<size_t>(name);
}

std::string of_arena(unsigned arena, const char* what) {
  return "arena." + std::to_string(arena) + "." + what;
}

std::string text_of_statistics(const char* options) {
  std::string text;
  malloc_stats_print(
      [](void* all, const char* part) { static_cast<std::string*>(all)->append(part); }, &text,
      options);
  return text;
}

// Values of a class of blocks.
struct Bin {
  unsigned number;
  size_t size = of("arenas.bin.", "size");
  size_t live() const { return of("stats.arenas.4096.bins.", "curregs"); }
  size_t slabs() const { return of("stats.arenas.0.bins.", "curslabs"); }
  uint32_t regions() const {
    return control<uint32_t>(("arenas.bin." + std::to_string(number) + ".nregs").c_str());
  }

  explicit Bin(unsigned bin) : number(bin) {}
  size_t of(const char* before, const char* what) const {
    return control<size_t>((before + std::to_string(number) + "." + what).c_str());
  }
};

TEST(Jemalloc, NamesThatItDoesNotKnowAreNotThere) {
  for (const char* name : {"",
                           ".",
                           "stats",
                           "stats.",
                           "stats.allocated.",
                           "stats.allocated.more",
                           "stats..allocated",
                           "nothing",
                           "Epoch",
                           "epochs",
                           "arenas.bin.72.size",
                           "arenas.bin.-1.size",
                           "arenas.bin.99999999999999999999.size",
                           "arenas.bin..size",
                           "arenas.lextent.0.size",
                           "arena.2.purge",
                           "arena.4098.purge",
                           "stats.arenas.1.pactive",
                           "arena.0.extent_hooks",
                           "arena.0.reset",
                           "thread.allocated",
                           "thread.allocatedp",
                           "stats.arenas.0.bins.0.nmalloc",
                           "arena.<i>.purge"}) {
    uint64_t value = 5;
    size_t length = sizeof value;
    size_t mib[8];
    size_t parts = 8;
    EXPECT_EQ(mallctl(name, &value, &length, nullptr, 0), ENOENT) << name;
    EXPECT_EQ(value, 5u) << name;
    if (std::string_view(name) != "stats") {
      EXPECT_EQ(mallctlnametomib(name, mib, &parts), ENOENT) << name;
    }
    count_cases();
  }
}

TEST(Jemalloc, WrongUsesAreRefused) {
  char buffer[16];
  for (const size_t wrong : {size_t{0}, size_t{7}, size_t{9}, size_t{16}}) {
    memset(buffer, 0x55, sizeof buffer);
    size_t length = wrong;
    EXPECT_EQ(mallctl("stats.allocated", buffer, &length, nullptr, 0), EINVAL) << wrong;
    EXPECT_EQ(length, std::min(wrong, sizeof(size_t))) << "as much as possible is read";
    EXPECT_EQ(buffer[std::min(wrong, sizeof(size_t))], 0x55) << wrong;
    EXPECT_EQ(mallctl("background_thread", nullptr, nullptr, buffer, wrong + 2), EINVAL);
    count_cases();
  }
  size_t length = 8;
  bool on = true;
  EXPECT_EQ(mallctl("stats.allocated", nullptr, nullptr, buffer, 8), EPERM);
  EXPECT_EQ(mallctl("opt.narenas", nullptr, nullptr, buffer, 4), EPERM);
  EXPECT_EQ(mallctl("prof.dump", buffer, &length, nullptr, 0), EPERM);
  EXPECT_EQ(mallctl("arena.0.purge", buffer, &length, nullptr, 0), EPERM);
  EXPECT_EQ(mallctl("thread.tcache.flush", nullptr, nullptr, &on, sizeof on), EPERM);
  EXPECT_EQ(mallctl("thread.tcache.enabled", nullptr, nullptr, &on, sizeof on), EPERM);
  EXPECT_EQ(mallctl("stats.allocated", nullptr, nullptr, nullptr, 0), 0) << "the name is there";
  count_cases(7);
}

TEST(Jemalloc, AMibLeadsToTheSameValue) {
  size_t mib[8];
  size_t parts = 8;
  ASSERT_EQ(mallctlnametomib("arenas.bin.0.size", mib, &parts), 0);
  ASSERT_EQ(parts, 4u);
  for (unsigned bin = 0; bin < control<unsigned>("arenas.nbins"); bin++) {
    size_t size = 0;
    size_t length = sizeof size;
    mib[2] = bin;
    EXPECT_EQ(mallctlbymib(mib, parts, &size, &length, nullptr, 0), 0);
    EXPECT_EQ(size, Bin(bin).size);
    count_cases();
  }
  size_t size = 0;
  size_t length = sizeof size;
  mib[2] = control<unsigned>("arenas.nbins");
  EXPECT_EQ(mallctlbymib(mib, parts, &size, &length, nullptr, 0), ENOENT);
  mib[2] = 0;
  for (const size_t fewer : {0, 1, 2, 3}) {
    EXPECT_EQ(mallctlbymib(mib, fewer, &size, &length, nullptr, 0), ENOENT) << fewer;
  }
  for (const size_t wrong : {size_t{100'000}, SIZE_MAX}) {
    for (const size_t place : {0, 1, 2, 3}) {
      size_t other[8];
      std::copy(mib, mib + 4, other);
      other[place] = wrong;
      EXPECT_EQ(mallctlbymib(other, 4, &size, &length, nullptr, 0), ENOENT) << place;
      count_cases();
    }
  }
}

// A part of a MIB is the basis for a whole MIB.
TEST(Jemalloc, AMibMayBeMadeInParts) {
  size_t part[2] = {0, 99};
  size_t parts = 1;
  ASSERT_EQ(mallctlnametomib("arenas.bin.3.size", part, &parts), 0);
  EXPECT_EQ(parts, 1u);
  EXPECT_EQ(part[1], 99u) << "there was no room for it";
  size_t mib[6];
  size_t of_other[6];
  parts = 6;
  ASSERT_EQ(mallctlnametomib("stats.arenas.0.bins.1.curregs", mib, &parts), 0);
  ASSERT_EQ(mallctlnametomib("stats.arenas.4096.bins.7.curslabs", of_other, &parts), 0);
  ASSERT_EQ(parts, 6u);
  EXPECT_EQ(mib[4], 1u);
  EXPECT_EQ(of_other[2], 4096u);
  mib[5] = of_other[5];
  size_t slabs = 0;
  size_t length = sizeof slabs;
  EXPECT_EQ(mallctlbymib(mib, 6, &slabs, &length, nullptr, 0), 0);
  EXPECT_EQ(slabs, Bin(1).slabs());
  count_cases(3);
}

TEST(Jemalloc, TheStatisticsAreThoseOfTheLastEpoch) {
  constexpr size_t kBytes = 24 * kMiB;
  const uint64_t first = refresh();
  const auto before = control<size_t>("stats.allocated");
  std::vector<void*> blocks;
  for (size_t i = 0; i < kBytes / 1000; i++) blocks.push_back(std::malloc(1000));
  void* large = std::malloc(kBytes);
  EXPECT_EQ(control<size_t>("stats.allocated"), before) << "before the next epoch";
  EXPECT_EQ(refresh(), first + 1);
  EXPECT_EQ(control<uint64_t>("epoch"), first + 1);
  const auto during = control<size_t>("stats.allocated");
  EXPECT_GE(during, before + 2 * kBytes - kBytes / 500);
  EXPECT_LE(during, before + 2 * kBytes + kBytes / 4);
  EXPECT_EQ(during, control<size_t>("stats.arenas.0.small.allocated") +
                        control<size_t>("stats.arenas.0.large.allocated"));
  const auto active = control<size_t>("stats.active");
  EXPECT_GE(active, during);
  EXPECT_LE(active, during + during / 4 + 4 * kMiB);
  EXPECT_EQ(active % control<size_t>("arenas.page"), 0u);
  EXPECT_EQ(active, control<size_t>("stats.arenas.4096.pactive") * control<size_t>("arenas.page"));
  EXPECT_GT(control<size_t>("stats.resident"), active);
  EXPECT_GT(control<size_t>("stats.mapped"), active);
  EXPECT_GT(control<size_t>("stats.metadata"), 0u);
  for (void* block : blocks) std::free(block);
  std::free(large);
  EXPECT_LE(fresh("stats.allocated"), before + kMiB);
  count_cases(4);
}

TEST(Jemalloc, ItCountsTheBlocksOfAClass) {
  constexpr size_t kBlocks = 5000;
  for (const size_t size : {size_t{16}, size_t{96}, size_t{1024}, size_t{2560}, size_t{20'480}}) {
    unsigned number = 0;
    while (Bin(number).size != size) number++;
    const Bin bin(number);
    refresh();
    const size_t before = bin.live();
    std::vector<void*> blocks(kBlocks);
    for (void*& block : blocks) block = std::malloc(size);
    refresh();
    EXPECT_NEAR(double(bin.live()), double(before + kBlocks), 4) << size;
    EXPECT_GE(bin.slabs() * bin.regions(), bin.live());
    // The thread frees a third of the blocks, another thread the second third.
    for (size_t i = 0; i < kBlocks; i += 3) std::free(blocks[i]);
    std::thread([&] {
      for (size_t i = 1; i < kBlocks; i += 3) std::free(blocks[i]);
    }).join();
    refresh();
    EXPECT_NEAR(double(bin.live()), double(before + kBlocks / 3), 4) << size;
    for (size_t i = 2; i < kBlocks; i += 3) std::free(blocks[i]);
    refresh();
    EXPECT_NEAR(double(bin.live()), double(before), 4) << size;
    count_cases(3);
  }
}

TEST(Jemalloc, ArenasAreMadeAndEnded) {
  const auto count = control<unsigned>("arenas.narenas");
  const auto arena = control<unsigned>("arenas.create");
  EXPECT_GE(arena, 1u);
  EXPECT_EQ(control<unsigned>("arenas.narenas"), std::max(count, arena + 1));
  EXPECT_TRUE(control<bool>(of_arena(arena, "initialized").c_str()));
  void* block = mallocx(100, arena_flag(arena));
  refresh();
  EXPECT_EQ(control<size_t>(("stats." + of_arena(arena, "pactive").insert(5, "s")).c_str()), 0u);
  unsigned found = 99;
  size_t length = sizeof found;
  EXPECT_EQ(mallctl("arenas.lookup", &found, &length, &block, sizeof block), 0);
  EXPECT_EQ(found, 0u);
  void* stack = &found;
  EXPECT_EQ(mallctl("arenas.lookup", &found, &length, &stack, sizeof stack), EINVAL);
  EXPECT_EQ(mallctl("arenas.lookup", &found, &length, nullptr, 0), EINVAL);
  for (const char* name : {"purge", "decay"}) EXPECT_EQ(command(of_arena(arena, name).c_str()), 0);
  EXPECT_EQ(command(of_arena(arena, "destroy").c_str()), 0);
  EXPECT_EQ(command(of_arena(arena + 1, "destroy").c_str()), ENOENT);
  EXPECT_EQ(command("arena.0.destroy"), EFAULT);
  EXPECT_EQ(control<unsigned>("arenas.create"), arena) << "a number is used again";
  EXPECT_EQ(command(of_arena(arena, "destroy").c_str()), 0);
  dallocx(block, 0);
  uint64_t wide = 7;
  size_t wide_length = sizeof wide;
  EXPECT_EQ(mallctl("arenas.create", &wide, &wide_length, nullptr, 0), EINVAL);
  EXPECT_EQ(wide_length, 0u);
  EXPECT_EQ(wide, 7u);
  EXPECT_EQ(mallctl("arenas.create", &found, &length, &stack, sizeof stack), EPERM) << "hooks";
  count_cases(5);
}

TEST(Jemalloc, NumbersOfArenasRunOut) {
  std::vector<unsigned> made;
  int error = 0;
  while (error == 0) {
    unsigned number = 0;
    size_t length = sizeof number;
    error = mallctl("arenas.create", &number, &length, nullptr, 0);
    if (error == 0) made.push_back(number);
  }
  EXPECT_EQ(error, EAGAIN);
  EXPECT_GT(made.size(), 4000u);
  EXPECT_LT(made.back(), 4095u) << "MALLOCX_ARENA has twelve bits";
  for (const unsigned arena : made) EXPECT_EQ(command(of_arena(arena, "destroy").c_str()), 0);
  EXPECT_EQ(control<unsigned>("arenas.narenas"), 1u);
  count_cases(made.size());
}

TEST(Jemalloc, ThreadsHaveOneArena) {
  EXPECT_EQ(control<unsigned>("thread.arena"), 0u);
  EXPECT_EQ(set_control("thread.arena", 0u), 0);
  EXPECT_EQ(set_control("thread.arena", 4000u), EFAULT);
  const auto arena = control<unsigned>("arenas.create");
  EXPECT_EQ(set_control("thread.arena", arena), EPERM);
  EXPECT_EQ(command(of_arena(arena, "destroy").c_str()), 0);
  const auto cache = control<unsigned>("tcache.create");
  EXPECT_EQ(set_control("tcache.flush", cache), 0);
  EXPECT_EQ(set_control("tcache.destroy", cache), 0);
  EXPECT_EQ(set_control("tcache.destroy", cache), EINVAL);
  EXPECT_EQ(command("tcache.flush"), EINVAL) << "which one is not said";
  EXPECT_EQ(command("thread.tcache.flush"), 0);
  EXPECT_EQ(command("thread.idle"), 0);
  count_cases(4);
}

TEST(Jemalloc, APurgeGivesFreeMemoryBack) {
  // Redis names all arenas by the number of arenas.
  for (const unsigned all : {0u, 4096u, control<unsigned>("arenas.narenas")}) {
    void* block = std::malloc(32 * kMiB);
    memset(block, 1, 32 * kMiB);
    std::free(block);
    EXPECT_GE(fresh("stats.arenas.0.pdirty"), 32 * kMiB / control<size_t>("arenas.page"));
    const auto before = control<uint64_t>("stats.arenas.0.dirty_purged");
    EXPECT_EQ(command(of_arena(all, "purge").c_str()), 0);
    EXPECT_EQ(fresh("stats.arenas.0.pdirty"), 0u);
    EXPECT_GE(control<uint64_t>("stats.arenas.0.dirty_purged"), before + 8192);
    count_cases();
  }
}

TEST(Jemalloc, OptionsOfTheLibraryChange) {
  const auto decay = control<ssize_t>("arenas.dirty_decay_ms");
  EXPECT_EQ(set_control("arenas.dirty_decay_ms", ssize_t{2500}), 0);
  EXPECT_EQ(control<ssize_t>("arena.0.dirty_decay_ms"), 2500);
  long value = 0;
  EXPECT_EQ(near_get_option("decay_ms", &value), 0);
  EXPECT_EQ(value, 2500);
  EXPECT_EQ(set_control("arena.0.dirty_decay_ms", ssize_t{-1}), EFAULT) << "memory always leaves";
  EXPECT_EQ(set_control("arena.0.dirty_decay_ms", decay), 0);
  EXPECT_EQ(set_control("arenas.muzzy_decay_ms", ssize_t{700}), 0);
  EXPECT_EQ(control<ssize_t>("arenas.muzzy_decay_ms"), 700);
  bool before = false;
  bool on = false;
  size_t length = sizeof before;
  EXPECT_EQ(mallctl("background_thread", &before, &length, &on, sizeof on), 0);
  EXPECT_TRUE(before);
  EXPECT_FALSE(control<bool>("background_thread"));
  EXPECT_EQ(set_control("background_thread", true), 0);
  count_cases(3);
}

TEST(Jemalloc, TheProfilerIsNearmallocs) {
  const char* path = "jemalloc_control.heap";
  EXPECT_FALSE(control<bool>("prof.active"));
  EXPECT_EQ(set_control("prof.dump", path), EFAULT) << "nothing was recorded";
  EXPECT_EQ(set_control("prof.active", true), 0);
  EXPECT_EQ(set_control("prof.reset", size_t{12}), 0);
  EXPECT_EQ(control<size_t>("prof.lg_sample"), 12u);
  EXPECT_TRUE(control<bool>("prof.active"));
  std::vector<void*> blocks(1000);
  for (void*& block : blocks) block = std::malloc(1000);
  EXPECT_EQ(set_control("prof.dump", path), 0);
  EXPECT_EQ(set_control("prof.active", false), 0);
  EXPECT_FALSE(control<bool>("prof.active"));
  for (void* block : blocks) std::free(block);
  char line[100] = "";
  FILE* file = std::fopen(path, "r");
  ASSERT_NE(file, nullptr);
  EXPECT_NE(std::fgets(line, sizeof line, file), nullptr);
  std::fclose(file);
  std::remove(path);
  EXPECT_EQ(std::string_view(line).substr(0, 13), "heap profile:") << line;
  EXPECT_EQ(set_control("prof.reset", size_t{60}), EFAULT) << "no interval is so long";
  count_cases(3);
}

TEST(Jemalloc, StatisticsAreWrittenByTheFunctionOfTheProgram) {
  EXPECT_NE(text_of_statistics(nullptr).find("KiB in spans"), std::string::npos);
  EXPECT_NE(text_of_statistics("gmdabl").find("KiB in spans"), std::string::npos);
  const std::string json = text_of_statistics("gJ");
  EXPECT_EQ(json.front(), '{');
  EXPECT_NE(json.find("\"totals\": {\"nodes\": "), std::string::npos) << json;
  EXPECT_EQ(std::string_view(control<const char*>("version")).substr(0, 6), "5.3.0-");
  count_cases(4);
}

}  // namespace
}  // namespace near_test
