// Model of sync/bump_pool.h: three threads take pieces from blocks that have room for two each.
//
// Invariants: no byte is taken twice; every piece lies inside its block; a thread sees the size of
// a block that another one made; blocks are made one at a time, and none before the last is used
// up.
// Bound: 3 threads, 4 pieces, 2 blocks.
#include "runner.h"
#include "sync/bump_pool.h"

namespace near::model {
namespace {

constexpr size_t kPiece = 64;
constexpr size_t kPieces = 2;  // of a block
constexpr uint32_t kBlocks = 2;

class TakePieces : public rl::test_suite<TakePieces, 3> {
 public:
  void before() { made_ = 0; }

  void thread(unsigned index) {
    count(take());
    if (index == 0) count(take());
  }

  void after() {
    uint32_t sum = 0;
    for (uint32_t each : taken_) sum += each;
    expect(sum == kBlocks * kPieces, "a piece was refused or lost");
    expect(made_ == kBlocks, "a block was made although there was room");
  }

 private:
  char* take() {
    Mutex another{Rank::node};
    Mutex& lock = mutated("each thread has a lock of its own") ? another : lock_;
    return pool_.take(kPiece, lock, [&] { return make(); });
  }

  BumpPool::Block* make() {
    if (made_ == kBlocks) return nullptr;
    BumpPool::Block& block = rooms_[made_].block;
    made_ = made_ + 1;
    block.bytes = kHeader + kPieces * kPiece;
    block.used.store(kHeader + kPiece, kRelaxed);  // relaxed: published by the pool
    return &block;
  }

  void count(const char* piece) {
    if (piece == nullptr) return;
    for (uint32_t i = 0; i < kBlocks; i++) {
      const auto at = static_cast<size_t>(piece - reinterpret_cast<char*>(&rooms_[i].block));
      if (at >= sizeof(Room)) continue;
      expect(at >= kHeader && at + kPiece <= kHeader + kPieces * kPiece, "outside its block");
      uint32_t& taken = taken_[i * kPieces + (at - kHeader) / kPiece];
      expect(taken == 0, "a piece was taken twice");
      taken++;
    }
  }

  static constexpr size_t kHeader = 512;
  struct Room {
    BumpPool::Block block;
    char rest[kHeader + kPieces * kPiece];
  };
  static_assert(sizeof(BumpPool::Block) <= kHeader);

  Mutex lock_{Rank::node};
  BumpPool pool_;
  Room rooms_[kBlocks];
  Plain<uint32_t> made_;
  uint32_t taken_[kBlocks * kPieces] = {};
};

}  // namespace

const std::vector<Exploration> kExplorations = {
    explore<TakePieces>("take pieces", Bounded{1}),
    explore<TakePieces>("take pieces", Random{1'000'000}),
};

const std::vector<Mutation> kMutations = {
    {"a block is not released", "bump_pool.h", "::take", kRelease, kRelaxed},
    {"a block is not acquired", "bump_pool.h", "::take", kAcquire, kRelaxed},
    {"each thread has a lock of its own"},
};

}  // namespace near::model
