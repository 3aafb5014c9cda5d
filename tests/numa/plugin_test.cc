// The parts of the counting plugin (vm/plugin) alone: markers, arguments, sets of pages, the
// map of nodes, and how accesses and markers enter the report.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "../../lab/workloads/marker_code.h"
#include "../../vm/plugin/arguments.h"
#include "../../vm/plugin/counter.h"
#include "../../vm/plugin/node_map.h"
#include "../../vm/plugin/page_set.h"
#include "../../vm/plugin/page_tally.h"
#include "support/cases.h"
#include "support/parallel.h"

namespace near_test {
namespace {

using namespace nearcount;

constexpr uint64_t kGranule = uint64_t{1} << NodeMap::kGranuleBits;

std::vector<uint8_t> comparison(Marker marker) {
  std::vector<uint8_t> code(prefixes_of(marker), 0x3e);
  code.push_back(0xa6);
  return code;
}

Marker decoded(const std::vector<uint8_t>& code) { return decode(code.data(), code.size()); }

TEST(PluginMarker, KindsAreToldApart) {
  for (const Marker kind : {Marker::kProgram, Marker::kBegin, Marker::kEnd}) {
    const uint32_t displacement = kMagic + static_cast<uint32_t>(kind);
    std::vector<uint8_t> code = {0x0f, 0x1f, 0x80, 0, 0, 0, 0};
    std::memcpy(code.data() + 3, &displacement, sizeof displacement);
    EXPECT_EQ(decoded(code), kind);
    EXPECT_FALSE(has_parameters(kind));
    code[2] = 0x84;  // the NOP with an index
    EXPECT_EQ(decoded(code), Marker::kNone);
  }
  for (const Marker kind :
       {Marker::kExclude, Marker::kInclude, Marker::kCalibrate, Marker::kHere}) {
    EXPECT_EQ(decoded(comparison(kind)), kind);
    EXPECT_TRUE(has_parameters(kind));
  }
  count_cases(7);
}

TEST(PluginMarker, OtherInstructionsAreNone) {
  const std::vector<std::vector<uint8_t>> others = {
      {},
      {0xa6},                                            // a comparison
      {0x3e, 0x3e, 0xa6},                                // after too few prefixes
      {0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0x3e, 0xa6},  // too many
      {0x3e, 0x2e, 0x3e, 0xa6},                          // or others
      {0x3e, 0x3e, 0x3e, 0xa4},                          // another string instruction
      {0x0f, 0x1f, 0x80, 0, 0, 0, 0},                    // a NOP of the compiler's
      {0x0f, 0x1f, 0x80, 0x00, 0x61, 0x65, 0x6e},        // of no kind
      {0x0f, 0x1f, 0x80, 0x04, 0x61, 0x65, 0x6e},        // of one that has parameters
      {0x0f, 0x1f, 0x00},
  };
  for (const auto& code : others) EXPECT_EQ(decoded(code), Marker::kNone) << code.size();
  count_cases(others.size());
}

TEST(PluginArguments, AreRead) {
  const std::string out = testing::TempDir() + "/nearcount-arguments";
  const Arguments read = parse({"cpus=1:5+0:0", "out=" + out, "cache_kib=32", "ways=4", "line=32"});
  EXPECT_EQ(read.node_of_cpu, (std::vector<unsigned>{0, 5}));
  EXPECT_EQ(read.out, out);
  EXPECT_EQ(read.cache.sets(), 32U * 1024 / 4 / 32);
  EXPECT_EQ(parse({"cpus=0:0", "out=" + out}).cache.sets(), 512U);
  std::remove(out.c_str());
  count_cases(2);
}

TEST(PluginArguments, WrongOnesAreRefused) {
  const std::string out = "out=" + testing::TempDir() + "/nearcount-wrong";
  const std::vector<std::vector<std::string>> wrong = {
      {out},
      {"cpus=0:0"},
      {"cpus=", out},
      {"cpus=0", out},
      {"cpus=0:x", out},
      {"cpus=0:64", out},
      {"cpus=56:0", out},
      {"cpus=0:0+0:1", out},
      {"cpus=0:0+2:1", out},
      {"cpus=0:0", "out=/no/such/folder/file"},
      {"cpus=0:0", out, "ways=0"},
      {"cpus=0:0", out, "ways=3"},
      {"cpus=0:0", out, "line=48"},
      {"cpus=0:0", out, "line=8"},
      {"cpus=0:0", out, "cache_kib=0"},
      {"cpus=0:0", out, "cache_kib=-1"},
      {"cpus=0:0", out, "cache_kib=100000000000000000000"},
      {"cpus=0:0", out, "more=1"},
      {"cpus=0:0", out, "more"},
  };
  for (const auto& words : wrong) EXPECT_THROW(parse(words), ArgumentError) << words.back();
  std::remove(out.substr(4).c_str());
  count_cases(wrong.size());
}

TEST(PluginPages, AreASet) {
  PageSet pages;
  std::set<uint64_t> plain;
  std::mt19937_64 random(seed());
  const uint64_t end = page_of(kUserEnd);
  for (size_t i = 0; i < 20'000; ++i) {
    const uint64_t page = i % 3 == 0 ? random() % end : random() % 3000;
    if (random() % 4 == 0) {
      ASSERT_EQ(pages.remove(page), plain.erase(page) == 1);
    } else {
      ASSERT_EQ(pages.add(page), plain.insert(page).second);
    }
    const uint64_t other = random() % 3000;
    ASSERT_EQ(pages.has(other), plain.contains(other));
  }
  for (const uint64_t page : plain) ASSERT_TRUE(pages.has(page));
  pages.clear();
  for (const uint64_t page : plain) ASSERT_FALSE(pages.has(page));
  count_cases(20'000);
}

TEST(PluginPages, OfTwoThatAddAPageOneIsFirst) {
  PageSet pages;
  constexpr size_t kThreads = 4, kPages = 100'000;
  std::array<size_t, kThreads> added{};
  run_threads(kThreads, [&](size_t i) {
    for (uint64_t page = 0; page < kPages; ++page) added[i] += pages.add(page * 37) ? 1 : 0;
  });
  EXPECT_EQ(added[0] + added[1] + added[2] + added[3], kPages);
  count_cases();
}

TEST(PluginPages, AreTalliedAsFarAsThereIsRoom) {
  PageTally tally;
  std::map<uint64_t, uint64_t> plain;
  std::mt19937_64 random(seed());
  constexpr size_t kCalls = 50'000;
  for (size_t i = 0; i < kCalls; ++i) {
    const uint64_t page = random() % 1000 + (random() % 100 == 0 ? random() % 100'000 : 0);
    tally.add(page);
    ++plain[page];
  }
  uint64_t sum = tally.others();
  tally.each([&](uint64_t page, uint64_t number) {
    EXPECT_EQ(number, plain[page]) << page;
    sum += number;
  });
  EXPECT_EQ(sum, kCalls);
  EXPECT_EQ(tally.others(), 0U) << "there was room";
  for (uint64_t page = 0; page < 3 * PageTally::kPlaces; ++page) tally.add(page << 20);
  EXPECT_GT(tally.others(), PageTally::kPlaces);
  tally.clear();
  tally.each([](uint64_t page, uint64_t) { ADD_FAILURE() << page; });
  EXPECT_EQ(tally.others(), 0U);
  count_cases(kCalls);
}

TEST(PluginNodes, GapsBelongToTheNodeOnBothSidesAndEdgesToTheNearest) {
  constexpr uint64_t kFirst = 100, kNext = 400, kReach = NodeMap::kReach;
  NodeMap map;
  for (const uint64_t granule : {kFirst, kFirst + 80}) map.learn(granule * kGranule + 4096, 0);
  for (const uint64_t granule : {kNext, kNext + 9}) map.learn(granule * kGranule, 3);
  map.learn((kNext + 20) * kGranule, 5);
  EXPECT_EQ(map.node_of(kFirst * kGranule), kUnknownNode) << "before close()";
  map.close();
  const std::vector<std::pair<uint64_t, unsigned>> expected = {
      {0, kUnknownNode},
      {kFirst - kReach - 1, kUnknownNode},
      {kFirst - kReach, 0},
      {kFirst, 0},
      {kFirst + 40, 0},
      {kFirst + 80, 0},
      {kFirst + 80 + kReach, 0},
      {kFirst + 80 + kReach + 1, kUnknownNode},
      {kNext - kReach - 1, kUnknownNode},
      {kNext - kReach, 3},
      {kNext + 5, 3},
      {kNext + 9 + 5, 3},
      {kNext + 9 + 6, 5},
      {kNext + 20 + kReach, 5},
      {kNext + 20 + kReach + 1, kUnknownNode},
      {NodeMap::kGranules - 1, kUnknownNode}};
  for (const auto& [granule, node] : expected) {
    EXPECT_EQ(map.node_of(granule * kGranule), node) << granule;
    EXPECT_EQ(map.node_of(granule * kGranule + kGranule - 1), node) << granule;
  }
  EXPECT_EQ(map.node_of(NodeMap::kEnd), kUnknownNode);
  EXPECT_EQ(map.node_of(Access::kNoValue), kUnknownNode);
  count_cases(expected.size());
}

TEST(PluginNodes, WhatWasShownIsKept) {
  NodeMap map;
  map.learn(7, 1);
  map.learn(9 * kGranule, 3);
  map.learn(8 * kGranule, 3);
  EXPECT_EQ(map.conflicts(), 0U);
  ASSERT_EQ(map.learned().size(), 2U);
  EXPECT_EQ(map.learned()[1].node, 3U);
  EXPECT_EQ(map.learned()[1].samples, 2U);
  EXPECT_EQ(map.learned()[1].first, 8 * kGranule);
  EXPECT_EQ(map.learned()[1].last, 9 * kGranule);
  count_cases();
}

TEST(PluginNodes, ContradictionsAreCounted) {
  NodeMap map;
  map.learn(kGranule, 0);
  map.learn(kGranule + 4096, 0);
  EXPECT_EQ(map.conflicts(), 0U);
  map.learn(kGranule + 8192, 1);
  EXPECT_EQ(map.conflicts(), 1U);
  map.learn(NodeMap::kEnd, 1);
  map.learn(5 * kGranule, kNodes);
  EXPECT_EQ(map.conflicts(), 3U);
  count_cases(3);
}

// A counter of three CPUs, on nodes 0, 0 and 1; granule 1 is node 0's, granule 2 node 1's.
class PluginCounter : public testing::Test {
 protected:
  static constexpr uint64_t kHere = kGranule, kThere = 2 * kGranule;

  PluginCounter() {
    counter.calibrate(kHere, 0);
    counter.calibrate(kThere, 1);
    counter.program();
  }

  void load(unsigned cpu, uint64_t address, uint64_t value) {
    if (counter.is_counting()) counter.count(cpu, {address, value, address + 7, value + 7, false});
  }
  void store(unsigned cpu, uint64_t address, uint64_t value) {
    if (counter.is_counting()) counter.count(cpu, {address, value, address + 7, value + 7, true});
  }
  nlohmann::json report(bool exited = true) {
    return nlohmann::json::parse(counter.report(exited));
  }

  Counter counter{Arguments{{0, 0, 1}, "", {}}};
};

TEST_F(PluginCounter, CountsByCpuNodeAndKindWithinTheRegion) {
  constexpr uint64_t kBlock = 0x10000, kStack = 0x7f0000000000;
  load(0, kBlock, kHere);  // before the region
  counter.exclude(kStack, kStack + 8192 - 1);
  counter.begin();
  load(0, kBlock, kHere);
  load(2, kBlock, kHere);
  store(2, kBlock + 4096, kThere);
  store(1, kBlock + 4096, 700 * kGranule);  // of no node
  store(1, kStack + 8000, kThere);
  load(0, kStack + 8192, kHere);
  counter.end();
  load(0, kBlock, kHere);  // after it
  const nlohmann::json region = report()["regions"].at(0);
  EXPECT_EQ(region["complete"], true);
  EXPECT_EQ(region["excluded_pages"], 2);
  EXPECT_EQ(region["cpus"]["0"]["heap"].dump(),
            R"({"0":{"bounces":0,"loads":2,"misses":1,"stores":0,"upgrades":0}})");
  EXPECT_EQ(region["cpus"]["1"]["heap"]["unknown"]["stores"], 1);
  EXPECT_EQ(region["cpus"]["1"]["excluded"]["1"]["stores"], 1);
  EXPECT_EQ(region["cpus"]["2"]["heap"]["0"]["loads"], 1);
  EXPECT_EQ(region["cpus"]["2"]["heap"]["1"]["stores"], 1);
  EXPECT_EQ(region["remote_pages"].dump(), "[[65536,1]]") << "CPU 2's load alone";
  EXPECT_EQ(region["cpus"]["0"]["pages_4k"], 2);
  EXPECT_EQ(region["cpus"]["2"]["pages_4k"], 2);
  EXPECT_EQ(region["pages_4k"], 3);
  EXPECT_EQ(region["pages_2m"], 2);
  count_cases(7);
}

TEST_F(PluginCounter, RegionsStartFromNothing) {
  for (size_t round = 0; round < 3; ++round) {
    counter.begin();
    load(0, 0x10000, kHere);
    counter.end();
    const nlohmann::json region = report(false)["regions"].at(round);
    EXPECT_EQ(region["cpus"]["0"]["heap"]["0"]["loads"], 1);
    EXPECT_EQ(region["cpus"]["0"]["heap"]["0"]["misses"], 1);
    EXPECT_EQ(region["pages_4k"], 1);
  }
  count_cases(3);
}

TEST_F(PluginCounter, PagesMostAccessedFromOtherNodesComeFirst) {
  for (size_t round = 0; round < 2; ++round) {  // each region by itself
    counter.begin();
    for (uint64_t page = 0; page < 40; ++page) {
      for (uint64_t i = 0; i <= page; ++i) load(i % 2 == 0 ? 0 : 1, page << kPageBits, kThere);
      load(2, page << kPageBits, kThere);
    }
    counter.end();
    const nlohmann::json pages = report(false)["regions"].at(round)["remote_pages"];
    ASSERT_EQ(pages.size(), Region::kRemotePages);
    EXPECT_EQ(pages[0].dump(), "[159744,40]");
    EXPECT_EQ(pages[1].dump(), "[155648,39]");
  }
  count_cases(2);
}

TEST_F(PluginCounter, RangesComeAndGo) {
  counter.exclude(0x10000, 0x12fff);
  counter.include(0x11000, 0x11fff);
  counter.begin();
  for (const uint64_t page : {0x10000, 0x11000, 0x12000, 0x13000}) load(0, page, kHere);
  counter.end();
  const nlohmann::json region = report()["regions"].at(0);
  EXPECT_EQ(region["excluded_pages"], 2);
  EXPECT_EQ(region["cpus"]["0"]["heap"]["0"]["loads"], 2);
  EXPECT_EQ(region["cpus"]["0"]["excluded"]["0"]["loads"], 2);
  counter.program();  // another one, elsewhere
  counter.begin();
  load(0, 0x10000, kHere);
  counter.end();
  EXPECT_EQ(report()["regions"].at(1)["cpus"]["0"]["heap"]["0"]["loads"], 1);
  count_cases(5);
}

TEST_F(PluginCounter, AnAccessMayReachIntoTwoLinesAndPages) {
  counter.begin();
  load(0, 0x10000 + 60, kHere + 60);
  counter.count(0, {0x10000 + 4092, kHere + 4092, 0x11003, kThere + 3, false});
  counter.end();
  const nlohmann::json cpu = report()["regions"].at(0)["cpus"]["0"];
  EXPECT_EQ(cpu["heap"]["0"]["loads"], 2);
  EXPECT_EQ(cpu["heap"]["0"]["misses"], 3);
  EXPECT_EQ(cpu["heap"]["1"]["loads"], 0);
  EXPECT_EQ(cpu["heap"]["1"]["misses"], 1);
  EXPECT_EQ(cpu["pages_4k"], 2);
  count_cases(2);
}

TEST_F(PluginCounter, AProgramThatDiesLeavesAnIncompleteRegion) {
  counter.begin();
  load(0, 0x10000, kHere);
  counter.program();
  counter.begin();
  const nlohmann::json result = report();
  ASSERT_EQ(result["regions"].size(), 2U);
  EXPECT_EQ(result["regions"][0]["complete"], false);
  EXPECT_EQ(result["regions"][1]["complete"], false) << "QEMU ended";
  EXPECT_EQ(result["malformed"], 0);
  count_cases(2);
}

TEST_F(PluginCounter, MarkersThatMakeNoSenseAreCounted) {
  counter.end();
  counter.begin();
  counter.begin();
  counter.end();
  counter.exclude(2, 1);
  counter.exclude(0, kUserEnd);
  counter.exclude(0, uint64_t{1} << 40);
  counter.malformed();
  counter.here(1, 1, 0);
  EXPECT_EQ(report()["calibration"]["wrong_cpus"], 0);
  counter.here(1, 2, 0);
  counter.here(1, 1, 1);
  EXPECT_EQ(report()["calibration"]["wrong_cpus"], 2);
  EXPECT_EQ(report()["malformed"], 6);
  EXPECT_EQ(report()["regions"].size(), 1U);
  count_cases(9);
}

TEST_F(PluginCounter, CpusCountAtTheSameTime) {
  constexpr size_t kEach = 100'000;
  counter.begin();
  run_threads(3, [this](unsigned cpu) {
    for (size_t i = 0; i < kEach; ++i) {
      load(cpu, 0x10000 + i % 4096, kHere + i % 4096);
      store(cpu, 0x20000, kThere);
    }
  });
  counter.end();
  size_t misses = 0, bounces = 0;
  const nlohmann::json region = report()["regions"].at(0);
  for (const auto& cpu : region["cpus"]) {
    EXPECT_EQ(cpu["heap"]["0"]["loads"], kEach);
    EXPECT_EQ(cpu["heap"]["1"]["stores"], kEach);
    misses += cpu["heap"]["1"]["misses"].get<size_t>();
    bounces += cpu["heap"]["1"]["bounces"].get<size_t>();
  }
  EXPECT_EQ(misses, bounces + 1) << "the line has an owner from the first store on";
  count_cases(6);
}

}  // namespace
}  // namespace near_test
