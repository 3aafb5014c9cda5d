// The example of docs/timeline.md: three threads free batches; with `--timeline FILE` it is seen.
// Prints a line of result as the workloads do, so that `timeline-cost` can compare both ways.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nearmalloc/reclaim/timeline.hpp>
#include <thread>
#include <vector>

using near::reclaim::kind;
using near::reclaim::scope;
using near::reclaim::timeline;
using near::reclaim::track;

namespace {

constexpr uint64_t kEpochs = 200;
constexpr uint32_t kObjects = 2000;

void free_batches(timeline* recorder, const char* name) {
  track* const row = recorder != nullptr ? recorder->join(name) : nullptr;
  std::vector<std::unique_ptr<long>> batch;
  for (uint64_t epoch = 0; epoch < kEpochs; epoch++) {
    for (uint32_t number = 0; number < kObjects; number++) {
      batch.push_back(std::make_unique<long>(number));
    }
    if (row != nullptr) {
      const uint64_t now = timeline::now();
      row->sample(kind::unreclaimed, now, batch.size(), static_cast<uint32_t>(epoch));
      row->point(kind::epoch_change, now, epoch);
    }
    scope freeing(row, kind::free_batch, epoch);  // does nothing if `row` is null
    freeing.count(kObjects);
    batch.clear();
  }
  if (row != nullptr) row->leave();
}

}  // namespace

int main(int count, char** words) {
  const bool record = count == 3 && std::strcmp(words[1], "--timeline") == 0;
  std::unique_ptr<timeline> recorder;
  if (record) recorder = std::make_unique<timeline>(3, 10'000);

  const uint64_t begin = timeline::now();
  std::vector<std::thread> threads;
  for (const char* name : {"first", "second", "third"}) {
    threads.emplace_back(free_batches, recorder.get(), name);
  }
  for (std::thread& thread : threads) thread.join();
  const auto passed = static_cast<double>(timeline::now() - begin);

  if (recorder && !recorder->write(words[2])) {
    std::perror(words[2]);
    return EXIT_FAILURE;
  }
  std::printf("{\"seconds\": %.6f, \"operations\": %llu}\n", passed / 1e9,
              static_cast<unsigned long long>(3 * kEpochs * kObjects));
  return EXIT_SUCCESS;
}
