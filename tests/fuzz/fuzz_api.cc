// Fuzz target: typed sequences of all calls, by several threads that take turns, on the tests'
// operating system, which refuses what the input says.
//
// The environment makes the world: NEARMALLOC_TOPOLOGY, NEARMALLOC_REGION_MIB and NEAR_FAKE_OS may
// be set.
// Thread-safety: libFuzzer's thread.
#include "fuzz/api_player.h"
#include "node/memory.h"

extern "C" int LLVMFuzzerInitialize(int*, char*** arguments) {
  using namespace near_test::fuzz;
  // Time must not matter.
  static constexpr std::pair<const char*, const char*> kWanted[] = {
      {"NEARMALLOC_PURGE_THREAD", "0"},
      {"NEARMALLOC_DECAY_MS", "600000"},
      {"NEARMALLOC_TOPOLOGY", "nodes=4 cpus=0-1,2-3,4-5,6-7"},
      {"NEARMALLOC_REGION_MIB", "64"},
      {"NEAR_FAKE_OS", "address_space=8589934592"},
  };
  enter_environment(*arguments, kWanted, std::size(kWanted));
  near::topology.real = world().nodes > 1;  // regions that are added later are bound to them
  near_set_option("invalid", 2);            // wrong frees are recognised and ignored
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace near_test::fuzz;
  count_input();
  Player(Bytes(data, size)).run();
  return 0;
}
