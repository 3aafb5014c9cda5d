// What the threads of the driver do.
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "fuzz/driver/play.h"
#include "support/fake_cpu.h"
#include "support/fake_os.h"

namespace near_test::driver {
namespace {

constexpr unsigned kDeepest = 2;
constexpr unsigned kSecondsOfChild = 60;  // half of them for a child of a child

// Frees a block and makes one at the end of its thread, when the thread's heap may be gone.
void free_at_end(void* block) {
  auto* mine = static_cast<Block*>(block);
  check_and_free(*mine);
  check_and_free(make(mine->size, mine->seed));
  delete mine;
}

pthread_key_t key_of_ends() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    demand(pthread_key_create(&made, free_at_end) == 0, "no key");
    return made;
  }();
  return key;
}

// The status of a child, which is killed if it does not end. An alarm would not end a child
// whose last thread blocks all signals.
int wait_for(pid_t child, unsigned seconds) {
  constexpr auto kPause = std::chrono::milliseconds(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int status = 0;
  for (pid_t ended = 0; (ended = waitpid(child, &status, WNOHANG)) != child;) {
    demand(ended == 0 || errno == EINTR, "waitpid fails");
    if (std::chrono::steady_clock::now() >= end) kill(child, SIGKILL);
    std::this_thread::sleep_for(kPause);
  }
  return status;
}

}  // namespace

const Life::Action Life::kActions[] = {
    {300, &Life::allocate},
    {50, &Life::allocate_zeroed},
    {40, &Life::allocate_aligned},
    {30, &Life::allocate_on_node},
    {40, &Life::allocate_from_heap},
    {90, &Life::resize},
    {220, &Life::free_one},
    {20, &Life::free_batch},
    {220, &Life::exchange},
    {6, &Life::hand_out_many},
    {4, &Life::leave_to_destructor},
    {2, &Life::trim},
    {3, &Life::check},
    {30, &Life::move_to_cpu},
    {6, &Life::refuse},
    {3, &Life::start_thread},
    {6, &Life::fork_process},
};

Life::Life(Play& play, uint64_t number, unsigned depth)
    : play_(play), number_(number), depth_(depth), random_(mix(play.seed_, number)) {}

void Life::run(size_t steps) {
  set_cpu(static_cast<unsigned>(random_.below(16)));
  uint64_t sum = 0;
  for (const Action& action : kActions) sum += action.weight;
  for (size_t i = 0; i < steps; i++) {
    uint64_t drawn = random_.below(sum);
    const Action* action = kActions;
    while (drawn >= action->weight) drawn -= (action++)->weight;
    (this->*action->play)();
  }
  for (std::thread& child : children_) child.join();
  // Some of what is left goes to other threads.
  const bool gives = random_.below(2) == 0;
  for (const Block& block : blocks_)
    check_and_free(gives ? play_.mailbox_.exchange(random_.next(), block) : block);
  // relaxed: a counter that is read after joins
  play_.operations_.fetch_add(operations_, std::memory_order_relaxed);
}

size_t Life::draw_size() {
  const uint64_t percent = random_.below(100);
  if (percent < 50) return play_.character_.favourite;
  return random_.size_up_to(
      percent + play_.character_.large_percent < 100 ? 12 : play_.character_.large_bits);
}

void Life::keep(const Block& block) {
  operations_++;
  if (block.start == nullptr) return;
  blocks_.push_back(block);
  if (blocks_.size() > play_.character_.most_blocks) free_one();
}

Block Life::take_out() {
  if (blocks_.empty()) return Block{};
  std::swap(draw_block(), blocks_.back());
  const Block block = blocks_.back();
  blocks_.pop_back();
  operations_++;
  return block;
}

void Life::allocate() {
  // The fault: another thread also holds a block of this thread, and writes to it. It frees
  // nothing, or the allocator might report the second free before the driver sees the damage.
  if (rules.fault == "overlap" && !blocks_.empty()) {
    const Block& held = draw_block();
    fill(held.start, held.size, random_.next());
  }
  keep(make(draw_size(), random_.next()));
}

void Life::allocate_zeroed() { keep(make_zeroed(draw_size(), random_.next())); }

void Life::allocate_aligned() {
  const size_t alignment = size_t{1} << random_.below(18);
  keep(make_aligned(alignment, draw_size(), random_.next()));
}

void Life::allocate_on_node() {
  const auto node = static_cast<int>(random_.below(static_cast<uint64_t>(play_.nodes_)));
  const unsigned flags = random_.below(2) == 0 ? 0 : NEAR_STRICT;
  keep(make_on_node(draw_size(), node, flags, random_.next()));
}

void Life::allocate_from_heap() {
  const size_t size = draw_size();
  errno = 0;
  void* start = near_heap_malloc(play_.shared_heap_, size);
  keep(take_over(start, size, size < 16 ? 8 : 16, random_.next()));
}

void Life::resize() {
  if (blocks_.empty()) return;
  check_and_resize(draw_block(), draw_size(), random_.next());
  operations_++;
}

void Life::free_one() { check_and_free(take_out()); }

void Life::free_batch() {
  std::vector<Block> batch;
  for (size_t i = random_.below(60); i > 0; i--) {
    const bool own = random_.below(2) == 0;
    batch.push_back(own ? take_out() : play_.mailbox_.exchange(random_.next(), Block{}));
  }
  check_and_free_batch(batch);
}

void Life::exchange() {
  const Block block = play_.mailbox_.exchange(random_.next(), take_out());
  if (block.start != nullptr) blocks_.push_back(block);
}

// Produces blocks that other threads free.
void Life::hand_out_many() {
  const size_t size = draw_size() % 4096 + 1;
  for (size_t i = random_.below(300); i > 0; i--) {
    check_and_free(play_.mailbox_.exchange(random_.next(), make(size, random_.next())));
    operations_++;
  }
}

void Life::leave_to_destructor() {
  if (pthread_getspecific(key_of_ends()) != nullptr || number_ == 0) return;
  const Block block = take_out();
  if (block.start != nullptr) pthread_setspecific(key_of_ends(), new Block(block));
}

void Life::trim() { near_malloc_trim(random_.below(2) == 0 ? 0 : size_t{1} << random_.below(24)); }
void Life::check() { demand(near_check() == 0, "near_check finds damage"); }
void Life::move_to_cpu() { set_cpu(static_cast<unsigned>(random_.below(16))); }

// Refuses the next calls of a kind, for all threads; the next such step ends that.
void Life::refuse() {
  if (!play_.refusals_) return;
  // relaxed: a coin that all threads toss
  const bool ends = play_.refusing_.fetch_add(1, std::memory_order_relaxed) % 2 != 0;
  const auto kind = static_cast<OsCall>(random_.below(kOsCalls + 1));
  const uint64_t nth = 1 + random_.below(20);
  const bool forever = random_.below(2) == 0;
  if (ends) return fake_os::fail_none();
  fake_os::fail(kind, nth, forever);
}

void Life::start_thread() {
  if (depth_ >= kDeepest || children_.size() == 2) return;
  const uint64_t number = random_.next();
  children_.emplace_back([this, number] { Life(play_, number, depth_ + 1).run(50); });
}

void Life::fork_process() {
  if (depth_ >= kDeepest || play_.forks_left_.fetch_sub(1) <= 0) return;
  pid_t child = 0;
  {
    const auto held = play_.mailbox_.hold();
    child = fork();
  }
  demand(child >= 0, "fork fails");
  if (child == 0) live_in_child();
  const int status = wait_for(child, kSecondsOfChild >> depth_);
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  demand(ended, "the child of a fork ends with this status", static_cast<size_t>(status));
}

// The child has this thread alone, its blocks, and those of the mailbox; what other threads held is
// lost. It works on, with threads of its own.
void Life::live_in_child() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  fake_os::fail_none();
  // These threads do not exist here: they may not be joined, nor a frame unwound that would join.
  new std::vector<std::thread>(std::move(children_));
  play_.forks_left_ = depth_ == 0 && random_.below(3) == 0 ? 1 : 0;
  for (const Block& block : std::exchange(blocks_, {})) check_and_free(block);
  if (random_.below(2) == 0) play_.mailbox_.free_all();
  Life(play_, random_.next(), depth_ + 1).run(100);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 2; i++) {
    const uint64_t number = random_.next();
    threads.emplace_back([this, number] { Life(play_, number, kDeepest).run(100); });
  }
  for (std::thread& thread : threads) thread.join();
  play_.mailbox_.free_all();
  near_malloc_trim(0);
  demand(near_check() == 0, "near_check finds damage in the child");
  end_child();
}

// At once, or with its last thread: this one, or one that plays on without it.
void Life::end_child() {
  const uint64_t way = random_.below(3);
  if (way == 0) _exit(0);
  if (way == 1) {
    const uint64_t number = random_.next();
    std::thread([&play = play_, number] { Life(play, number, kDeepest).run(100); }).detach();
  }
  pthread_exit(nullptr);
}

}  // namespace near_test::driver
