// One simulation: a scheduler that draws a virtual thread and an action at each step, and plays it.
// Invariant: everything is drawn from the seed, so a seed plays the same in every process: whatever
// the addresses, and however often all is checked.
// Thread-safety: the process that plays it; after a fork the child plays on with a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "numa/simulator_checks.h"
#include "numa/simulator_journal.h"
#include "numa/simulator_model.h"
#include "numa/simulator_placement.h"
#include "support/pattern.h"

namespace near_test {

struct Settings {
  uint64_t steps = 2000;
  unsigned every = 16;      // steps from one check of everything to the next
  std::string_view damage;  // what is broken on purpose, and when
  uint64_t damage_step = 0;
};

// Breaks something that the checks have to find; false if there is nothing yet to break.
bool do_damage(std::string_view kind, Model& model);

class Simulation {
 public:
  Simulation(Journal& journal, const World& world, const Settings& settings);

  // Plays all steps, frees everything, ends all threads, and looks whether all came home.
  void run();

 private:
  struct Action {
    const char* name;
    unsigned weight;
    void (Simulation::*play)();
  };
  static const Action kActions[];

  // What differs from seed to seed.
  struct Character {
    size_t favourites[6];  // sizes
    size_t most_threads;
    size_t most_blocks;
    size_t most_bytes;
    size_t spare;   // address space beyond that of the start
    size_t burst;   // small blocks at once
    uint64_t tide;  // steps in which blocks become more, and then as many in which they become less
    unsigned large_percent;
    unsigned settled_percent;  // of the moves: those to a CPU of the same node
  };
  Character draw_character();
  const Action& draw_action();
  size_t draw_size();
  size_t draw_count(size_t size);
  size_t draw_block(bool own);

  void step();
  void after_step();
  void limit_address_space();
  void run_steps(uint64_t steps);
  void finish();
  VirtualThread& me() { return model_.threads[acting_]; }

  // The actions.
  void allocate();
  void allocate_zeroed();
  void allocate_aligned();
  void resize();
  void free_own();
  void free_others();
  void free_batch();
  void migrate();
  void end_thread();
  void start_thread();
  void allocate_on_node();
  void make_bound_heap();
  void allocate_from_bound();
  void end_bound_heap();
  void fork_process();
  void trim();
  void tend();
  void pass();
  void refuse();
  void check();

  void take_over(const Placement::Before& before, void* block, size_t size, size_t alignment);
  void keep(void* block, size_t size, size_t alignment);
  void destroy_bound_heap(size_t index);
  void refused(const Placement::Before& before, size_t size);
  void free_block(size_t index);
  void free_some(bool own);
  bool is_full() const;
  bool is_rising() const;
  [[noreturn]] void live_in_child();

  Model model_;
  Placement placement_{model_};
  Checks checks_{model_, placement_};
  const Settings& settings_;
  Random random_;
  Character character_;
  size_t acting_ = 0;
  unsigned threads_made_ = 0;
  bool ended_ = false;          // the acting thread, in this step
  bool settling_ = false;       // all that is left to do is to free and to end
  bool trimmed_ = false;        // all was given back, in this step
  uint64_t refused_until_ = 0;  // the step at which the system gives memory again
  bool damaged_ = false;
};

}  // namespace near_test
