#include "numa/simulator_play.h"

#include <algorithm>
#include <cstdio>

#include "nearmalloc/nearmalloc.h"
#include "support/fake_os.h"

namespace near_test {
namespace {

constexpr uint64_t kStateEvery = 128;  // steps from one state in the hash to the next

}  // namespace

const Simulation::Action Simulation::kActions[] = {
    {"malloc", 300, &Simulation::allocate},
    {"calloc", 40, &Simulation::allocate_zeroed},
    {"aligned", 40, &Simulation::allocate_aligned},
    {"realloc", 60, &Simulation::resize},
    {"free own", 130, &Simulation::free_own},
    {"free others'", 110, &Simulation::free_others},
    {"free batch", 50, &Simulation::free_batch},
    {"migrate", 60, &Simulation::migrate},
    {"exit", 14, &Simulation::end_thread},
    {"start", 18, &Simulation::start_thread},
    {"on node", 25, &Simulation::allocate_on_node},
    {"heap", 8, &Simulation::make_bound_heap},
    {"from heap", 40, &Simulation::allocate_from_bound},
    {"end heap", 6, &Simulation::end_bound_heap},
    {"fork", 2, &Simulation::fork_process},
    {"trim", 4, &Simulation::trim},
    {"tend", 12, &Simulation::tend},
    {"time", 12, &Simulation::pass},
    {"refuse", 10, &Simulation::refuse},
    {"check", 4, &Simulation::check},
};

Simulation::Simulation(Journal& journal, const World& world, const Settings& settings)
    : model_(journal, world),
      settings_(settings),
      random_(journal.seed()),
      character_(draw_character()) {}

// Few favourite sizes, so that spans fill and empty; much of it or little; many or few threads.
Simulation::Character Simulation::draw_character() {
  Character character{};
  for (size_t& size : character.favourites)
    size = 200 + random_.below(4'000) + random_.below(4'000);
  const World& world = model_.world;
  const size_t memory = size_t{world.nodes} * world.region_mib * near::kMiB;
  constexpr size_t kShares[] = {25, 60, 100, 130};  // percent: more than there is adds regions
  character.most_threads = 2 + random_.below(2 * world.cpus);
  character.most_blocks = 200 + random_.below(1'500);
  character.most_bytes = memory / 100 * kShares[random_.below(std::size(kShares))];
  constexpr size_t kSpares[] = {4, 12, 40, 4000};  // MiB: for heaps and regions that are added
  character.spare = kSpares[random_.below(std::size(kSpares))] * near::kMiB;
  character.burst = 1 + random_.below(48);
  character.tide = 50 + random_.below(300);
  character.large_percent = static_cast<unsigned>(1 + random_.below(12));
  character.settled_percent = static_cast<unsigned>(random_.below(80));
  return character;
}

const Simulation::Action& Simulation::draw_action() {
  uint64_t sum = 0;
  for (const Action& action : kActions) sum += action.weight;
  uint64_t drawn = random_.below(sum);
  const Action* action = kActions;
  while (drawn >= action->weight) drawn -= (action++)->weight;
  return *action;
}

size_t Simulation::draw_size() {
  const uint64_t percent = random_.below(100);
  if (percent < character_.large_percent) {
    const bool huge = random_.below(8) == 0;
    return huge ? near::kMiB + random_.below(2 * near::kMiB)
                : near::kMediumMax + random_.below(300 * near::kKiB);
  }
  if (percent < 60) return character_.favourites[random_.below(std::size(character_.favourites))];
  return random_.size_up_to(percent < 90 ? 10 : 15);
}

size_t Simulation::draw_count(size_t size) {
  if (size > near::kMediumMax) return 1;
  const size_t most = size > 4 * near::kKiB ? character_.burst / 4 + 1 : character_.burst;
  return 1 + random_.below(most);
}

// The index of a live block that the acting thread made, or another; the number of blocks if a few
// draws find none.
size_t Simulation::draw_block(bool own) {
  constexpr unsigned kDraws = 8;
  for (unsigned i = 0; i < kDraws && !model_.blocks.empty(); i++) {
    const size_t index = random_.below(model_.blocks.size());
    if ((model_.blocks[index].maker == me().number) == own) return index;
  }
  return model_.blocks.size();
}

bool Simulation::is_full() const {
  return model_.blocks.size() >= character_.most_blocks ||
         model_.live_bytes >= character_.most_bytes;
}

bool Simulation::is_rising() const { return model_.journal.step() / character_.tide % 2 == 0; }

void Simulation::step() {
  Journal& journal = model_.journal;
  acting_ = random_.below(model_.threads.size());
  ended_ = trimmed_ = false;
  const Action& action = draw_action();
  journal.begin(action.name, me().number);
  if (refused_until_ != 0 && journal.step() >= refused_until_) {
    fake_os::fail_none();
    refused_until_ = 0;
  }
  checks_.begin_step(me().number);
  me().enter();
  (this->*action.play)();
  me().leave();
  if (ended_) model_.threads.erase(model_.threads.begin() + static_cast<ptrdiff_t>(acting_));
  if (model_.threads.empty()) start_thread();
  after_step();
}

void Simulation::after_step() {
  const uint64_t step = model_.journal.step();
  if (!settings_.damage.empty() && !damaged_ && step >= settings_.damage_step)
    damaged_ = do_damage(settings_.damage, model_);
  checks_.after_step();
  if (trimmed_) checks_.expect_trimmed();
  if (step % settings_.every == 0 || trimmed_) checks_.everything();
  if (step % kStateEvery == 0) checks_.record_state();
}

void Simulation::run_steps(uint64_t steps) {
  for (uint64_t i = 0; i < steps; i++) step();
}

// Regions can grow to their full size; few windows are added then.
void Simulation::limit_address_space() {
  const World& world = model_.world;
  const size_t of_node = (world.region_mib + size_t{1}) * near::kMiB;  // with tables
  fake_os::set_address_space_limit(fake_os::reserved_bytes() + world.nodes * of_node +
                                   character_.spare);
}

void Simulation::run() {
  limit_address_space();
  start_thread();
  run_steps(settings_.steps);
  finish();
}

// The threads there are free everything, every thread ends, and then all memory is given back:
// what is left is in parked heaps.
void Simulation::finish() {
  model_.journal.begin("finish", 0);
  settling_ = true;
  fake_os::fail_none();
  while (!model_.blocks.empty()) {
    acting_ = random_.below(model_.threads.size());
    me().enter();
    free_block(random_.below(model_.blocks.size()));
    me().leave();
  }
  while (!model_.bound_heaps.empty()) {
    acting_ = random_.below(model_.threads.size());
    me().enter();
    destroy_bound_heap(0);
    me().leave();
  }
  for (; !model_.threads.empty(); model_.threads.pop_back()) {
    acting_ = model_.threads.size() - 1;
    me().enter();
    end_thread();
    me().leave();
  }
  checks_.begin_step(0);
  near_malloc_trim(0);
  model_.journal.demand(near_check() == 0, "near_check");
  checks_.after_step();
  checks_.everything();
  checks_.expect_trimmed();
  checks_.expect_nothing();
  checks_.record_state();
  model_.journal.complete();
}

}  // namespace near_test
