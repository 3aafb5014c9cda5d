// A server: a fixed pool of threads, each of which serves connections of its own in random order.
// A request is read into a block, parsed into headers and answered from a buffer that grows while
// it is written. A connection's session lives for many requests; entries of a cache are replaced.
// No block leaves its thread, so no memory need be shared between nodes. Each thread allocates its
// initial blocks itself, before the measured region. Blocks with contents are written from end to
// end: otherwise realloc would copy untouched pages, which all map the kernel's one zero page, on
// one node. Our own.
#include <cstring>

#include "workload.h"

namespace {

struct Options {
  size_t threads = 2;
  size_t connections = 1000;
  size_t requests = 2'000'000;
  size_t cached = 5000;
  size_t keep = 100;
};

const workload::Sizes kSessions(128, 2048);
const workload::Sizes kInputs(64, 4096);
const workload::Sizes kHeaders(16, 256);
const workload::Sizes kAnswers(256, 100'000);
const workload::Sizes kEntries(32, 8192);
constexpr size_t kReadBuffer = 4096;
constexpr size_t kMostHeaders = 16;
constexpr size_t kFirstAnswer = 512;
constexpr size_t kReplacedOneIn = 4;  // requests whose answer goes to the cache

// Writes contents from `begin` on, but not over the stamps at the ends.
void write_contents(const workload::Block& block, size_t begin = 0) {
  begin = std::max(begin, workload::kStampedEnd);
  const size_t end = block.size - std::min(block.size, workload::kStampedEnd);
  if (begin < end) std::memset(block.address + begin, 'x', end - begin);
}

struct Connection {
  workload::Block session;
  workload::Block buffer;
};

// What one thread holds while the server runs. Its tables are mapped, so they are not heap.
class Pool {
 public:
  Pool(const Options& options, workload::Worker& worker, size_t index)
      : options_(options),
        random_(index + 1),
        connections_(options.connections),
        cache_(options.cached) {
    for (Connection& connection : connections_) accept(worker, connection);
    for (workload::Block& entry : cache_) entry = written(worker, kEntries.pick(random_));
  }

  void serve(workload::Worker& worker) {
    Connection& connection = connections_[random_.below(connections_.size())];
    answer(worker);
    if (random_.below(kReplacedOneIn) == 0) replace_entry(worker);
    if (random_.below(options_.keep) != 0) return;
    close(worker, connection);
    accept(worker, connection);
  }

  void shut_down(workload::Worker& worker) {
    for (Connection& connection : connections_) close(worker, connection);
    for (const workload::Block& entry : cache_) worker.release(entry);
  }

 private:
  static workload::Block written(workload::Worker& worker, size_t size) {
    const workload::Block block = worker.allocate(size);
    write_contents(block);
    return block;
  }

  void accept(workload::Worker& worker, Connection& connection) {
    connection.session = written(worker, kSessions.pick(random_));
    connection.buffer = written(worker, kReadBuffer);
  }

  void close(workload::Worker& worker, Connection& connection) {
    worker.release(connection.buffer);
    worker.release(connection.session);
  }

  // Serves one request, from its first byte to the last byte of its answer.
  void answer(workload::Worker& worker) {
    const workload::Block input = written(worker, kInputs.pick(random_));
    workload::Block headers[kMostHeaders];
    const size_t count = random_.between(kMostHeaders / 4, kMostHeaders);
    for (size_t i = 0; i < count; ++i) headers[i] = written(worker, kHeaders.pick(random_));
    const size_t wanted = kAnswers.pick(random_);
    workload::Block output = written(worker, kFirstAnswer);
    while (output.size < wanted) {
      const size_t before = output.size;
      output = worker.resize(output, 2 * before);
      write_contents(output, before);
    }
    for (size_t i = 0; i < count; ++i) worker.release(headers[i]);
    worker.release(input);
    worker.release(output);
  }

  void replace_entry(workload::Worker& worker) {
    workload::Block& entry = cache_[random_.below(cache_.size())];
    worker.release(entry);
    entry = written(worker, kEntries.pick(random_));
  }

  const Options options_;
  workload::Random random_;
  workload::Table<Connection> connections_;
  workload::Blocks cache_;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  workload::Workload workload("server_pool",
                              "threads serve requests, each from connections of its own");
  workload.count("--threads", options.threads, "threads of the pool");
  workload.count("--connections", options.connections, "connections of one thread");
  workload.count("--requests", options.requests, 200'000, "requests that one thread serves");
  workload.count("--cached", options.cached, "entries in a thread's cache");
  workload.count("--keep", options.keep, "requests that a connection serves, on average");
  workload.parse(argc, argv);

  const auto prepare = [&](workload::Worker& worker, size_t index) {
    return Pool(options, worker, index);
  };
  workload.run_prepared(options.threads, prepare, [&](workload::Worker& worker, Pool& pool) {
    for (size_t i = 0; i < options.requests; ++i) pool.serve(worker);
    pool.shut_down(worker);
  });
  return workload.report();
}
