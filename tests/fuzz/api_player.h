// Plays an input of fuzz_api: its bytes are commands, each a call of the library or something that
// happens to the process, with small numbers behind it.
//
// Threads take turns: a command hands over to another one, so an input plays the same every time.
// Faults of the operating system and limits are commands too.
// Invariant: when the player is gone all blocks are free, all threads have ended, nothing is
// refused, and options are as before.
// Thread-safety: the thread that plays the input, and the thread whose turn it is.
#pragma once

#include <nearmalloc/nearmalloc.h>

#include <cstddef>
#include <memory>

#include "fuzz/api_table.h"
#include "fuzz/harness.h"
#include "support/threads.h"

namespace near_test::fuzz {

// The settings of this process, from the environment. Read once, before the first input.
struct World {
  int nodes;
  bool is_roomy;  // a node has room for all blocks of an input
  size_t address_space;
};

const World& world();

class Player {
 public:
  explicit Player(Bytes bytes) : bytes_(bytes) {}

  // Plays all commands, cleans up, and looks whether anything is left.
  void run();

 private:
  struct Command {
    const char* name;
    void (Player::*play)();
  };
  static const Command kCommands[];

  static constexpr size_t kThreads = 4;  // the first is the thread that plays the input
  static constexpr size_t kHeaps = 4;

  // A heap that the input made; of a node, or (-1) of all.
  struct Bound {
    near_heap* heap = nullptr;
    int node = -1;
    unsigned flags = 0;
  };

  // Numbers from the input.
  size_t draw_size();
  size_t draw_alignment();
  size_t draw_slot() { return bytes_.u8(); }
  int draw_node();
  unsigned draw_flags();

  // The commands: api_allocate.cc, then api_manage.cc.
  void allocate();
  void allocate_zeroed();
  void resize();
  void resize_array();
  void allocate_aligned();
  void allocate_posix();
  void allocate_memalign();
  void allocate_pages();
  void allocate_on_node();
  void allocate_from_heap();
  void allocate_many();
  void free_one();
  void free_with_size();
  void free_many();
  void free_batch();
  void make_heap();
  void end_heap();
  void trim();
  void change_option();
  void look_at_block();
  void look_at_statistics();
  void check();
  void move_to_cpu();
  void hand_over();
  void end_thread();
  void refuse();
  void limit();
  void end_refusals();
  void misuse();

  void step();
  void play_turn();
  void add(size_t slot, void* block, const Table::Wish& wish) { table_.add(slot, block, wish); }
  void expect_node(const void* block, int node, unsigned flags);
  void free_slot(size_t slot);
  // True if the slot was made empty and there is room for so much more.
  bool make_room(size_t slot, size_t size);
  void destroy(Bound& bound);
  bool is_of_heap(const char* block) const;
  void finish();
  void expect_nothing_left();

  Bytes bytes_;
  Table table_;
  Bound heaps_[kHeaps];
  std::unique_ptr<Worker> workers_[kThreads];
  size_t turn_ = 0;      // of which thread it is
  bool handed_ = false;  // the turn goes to another thread
  bool ends_ = false;    // the thread whose turn it was
  size_t steps_ = 0;
};

}  // namespace near_test::fuzz
