// A server of the demo: clients hand request buffers to workers, workers keep a sharded store with
// eviction and hand response buffers back.
// Invariant: the checksum depends only on the arguments. A client's requests for one shard reach
// the shard's only worker in order, no two clients share a shard, and responses are summed.
// Thread-safety: a queue's mutex guards the queue; a shard belongs to one worker; a buffer to the
// thread that holds it.
//
// A client allocates every request buffer and a worker frees it; for responses it is the reverse,
// so both are remote frees. Values live long, are evicted by age, and change their size.

#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

constexpr int kShardsPerClient = 8;
constexpr int kBatch = 32;   // requests handed over at a time, as if one read of a socket got them
constexpr int kWindow = 64;  // batches a client may have under way
constexpr size_t kKeys = 24000;          // keys of one client
constexpr size_t kShardBytes = 3 << 19;  // a shard evicts above this

// xorshift64*: small, and equal on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435769U + 1) {}
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 2685821657736338717U;
  }
  size_t below(size_t bound) { return static_cast<size_t>(next() >> 33) % bound; }

 private:
  uint64_t state_;
};

uint64_t digest(std::string_view bytes) {
  uint64_t hash = 1469598103934665603U;
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211U;
  return hash;
}

enum class Verb : uint8_t { kGet, kSet, kAppend, kRemove, kScan };

struct Request {
  Verb verb;
  uint32_t number;
  std::string key;
  std::unique_ptr<char[]> body;  // the value as received
  size_t size = 0;
};

struct Response {
  uint32_t number;
  std::unique_ptr<char[]> body;
  size_t size = 0;
};

template <typename T>
struct Batch {
  int client;
  int shard;
  std::vector<std::unique_ptr<T>> items;
};

// An unbounded queue; the clients' windows bound its length.
template <typename T>
class Queue {
 public:
  void push(T item) {
    {
      const std::lock_guard lock(mutex_);
      items_.push_back(std::move(item));
    }
    ready_.notify_one();
  }

  // The next item, or nothing once the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    return item;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    ready_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::list<T> items_;
  bool closed_ = false;
};

// A hash map with the keys in order of use; it evicts the oldest when the shard is too large.
class Shard {
 public:
  std::unique_ptr<Response> serve(const Request& request) {
    switch (request.verb) {
      case Verb::kGet:
        return get(request);
      case Verb::kSet:
        return set(request);
      case Verb::kAppend:
        return append(request);
      case Verb::kRemove:
        return remove(request);
      case Verb::kScan:
        return scan(request);
    }
    std::abort();
  }

  uint64_t evicted() const { return evicted_; }

 private:
  struct Entry {
    std::string value;
    std::list<std::string>::iterator age;
  };
  using Map = std::unordered_map<std::string, Entry>;

  static std::unique_ptr<Response> answer(const Request& request, std::string_view body) {
    auto response = std::make_unique<Response>();
    response->number = request.number;
    response->size = body.size();
    response->body.reset(new char[body.size() + 1]);
    std::memcpy(response->body.get(), body.data(), body.size());
    return response;
  }

  void touch(Map::iterator at) { ages_.splice(ages_.begin(), ages_, at->second.age); }

  Map::iterator find_or_add(const std::string& key) {
    const auto [at, is_new] = map_.try_emplace(key);
    if (is_new) {
      ages_.push_front(key);
      at->second.age = ages_.begin();
    } else {
      touch(at);
    }
    return at;
  }

  void drop(Map::iterator at) {
    bytes_ -= at->second.value.size();
    ages_.erase(at->second.age);
    map_.erase(at);
  }

  void evict() {
    while (bytes_ > kShardBytes) {
      drop(map_.find(ages_.back()));
      ++evicted_;
    }
  }

  std::unique_ptr<Response> get(const Request& request) {
    const auto at = map_.find(request.key);
    if (at == map_.end()) return answer(request, "nil");
    touch(at);
    return answer(request, at->second.value);
  }

  std::unique_ptr<Response> set(const Request& request) {
    const auto at = find_or_add(request.key);
    bytes_ -= at->second.value.size();
    at->second.value = std::string(request.body.get(), request.size);
    bytes_ += request.size;
    evict();
    return answer(request, "ok");
  }

  std::unique_ptr<Response> append(const Request& request) {
    const auto at = find_or_add(request.key);
    at->second.value.append(request.body.get(), request.size);
    bytes_ += request.size;
    auto response = answer(request, std::to_string(at->second.value.size()));
    evict();
    return response;
  }

  std::unique_ptr<Response> remove(const Request& request) {
    const auto at = map_.find(request.key);
    if (at == map_.end()) return answer(request, "nil");
    drop(at);
    return answer(request, "removed");
  }

  // Returns the newest keys and the sizes of their values as one document.
  std::unique_ptr<Response> scan(const Request& request) {
    std::vector<std::string> lines;
    for (const std::string& key : ages_) {
      if (lines.size() == 12) break;
      lines.push_back(key + ": " + std::to_string(map_.find(key)->second.value.size()) +
                      " bytes\n");
    }
    std::string document;
    for (const std::string& line : lines) document += line;
    return answer(request, document);
  }

  Map map_;
  std::list<std::string> ages_;  // most recently used first
  size_t bytes_ = 0;
  uint64_t evicted_ = 0;
};

using Requests = Queue<Batch<Request>>;
using Responses = Queue<Batch<Response>>;

class Server {
 public:
  Server(int workers, int clients)
      : shards_(static_cast<size_t>(clients) * kShardsPerClient),
        inboxes_(static_cast<size_t>(workers)),
        outboxes_(static_cast<size_t>(clients)) {
    for (Requests& inbox : inboxes_) threads_.emplace_back([this, &inbox] { work(inbox); });
  }

  void send(Batch<Request> batch) {
    const size_t place = shard_at(batch.client, batch.shard);
    inboxes_[place % inboxes_.size()].push(std::move(batch));
  }

  Responses& outbox(int client) { return outboxes_[static_cast<size_t>(client)]; }

  uint64_t stop() {
    for (Requests& inbox : inboxes_) inbox.close();
    for (std::thread& thread : threads_) thread.join();
    uint64_t evicted = 0;
    for (const Shard& shard : shards_) evicted += shard.evicted();
    return evicted;
  }

 private:
  static size_t shard_at(int client, int shard) {
    return static_cast<size_t>(client * kShardsPerClient + shard);
  }

  void work(Requests& inbox) {
    while (std::optional<Batch<Request>> batch = inbox.pop()) {
      Batch<Response> answers{batch->client, batch->shard, {}};
      Shard& shard = shards_[shard_at(batch->client, batch->shard)];
      for (std::unique_ptr<Request>& request : batch->items) {
        answers.items.push_back(shard.serve(*request));
        request.reset();
      }
      outbox(answers.client).push(std::move(answers));
    }
  }

  std::vector<Shard> shards_;
  std::vector<Requests> inboxes_;
  std::vector<Responses> outboxes_;
  std::vector<std::thread> threads_;
};

class Client {
 public:
  Client(Server& server, int id, uint32_t requests)
      : server_(server), id_(id), requests_(requests), random_(static_cast<uint64_t>(id) + 1) {}

  void run() {
    for (uint32_t number = 0; number < requests_; ++number) {
      ask(number);
      while (under_way_ >= kWindow) receive();
    }
    for (int shard = 0; shard < kShardsPerClient; ++shard) flush(shard);
    while (under_way_ > 0) receive();
  }

  uint64_t checksum() const { return checksum_; }
  uint64_t answered() const { return answered_; }

 private:
  // Skewed as real values are: most are small, one in 64 is a page or more.
  size_t value_size() {
    const size_t kind = random_.below(64);
    if (kind == 0) return 4096 + random_.below(28672);
    if (kind < 12) return 512 + random_.below(2048);
    return 16 + random_.below(400);
  }

  Verb verb() {
    const size_t kind = random_.below(100);
    if (kind < 48) return Verb::kGet;
    if (kind < 80) return Verb::kSet;
    if (kind < 92) return Verb::kAppend;
    return kind < 98 ? Verb::kRemove : Verb::kScan;
  }

  void ask(uint32_t number) {
    auto request = std::make_unique<Request>();
    const size_t key = random_.below(random_.below(4) == 0 ? kKeys : kKeys / 8);
    request->verb = verb();
    request->number = number;
    request->key = "tenant:" + std::to_string(id_) + ":object:" + std::to_string(key);
    if (request->verb == Verb::kSet || request->verb == Verb::kAppend) {
      request->size = request->verb == Verb::kSet ? value_size() : 8 + random_.below(120);
      request->body.reset(new char[request->size]);
      std::memset(request->body.get(), 'a' + static_cast<int>(number % 26), request->size);
    }
    const auto shard = static_cast<int>(key % kShardsPerClient);
    auto& batch = open_[static_cast<size_t>(shard)];
    batch.push_back(std::move(request));
    if (batch.size() == kBatch) flush(shard);
  }

  void flush(int shard) {
    auto& batch = open_[static_cast<size_t>(shard)];
    if (batch.empty()) return;
    server_.send({id_, shard, std::exchange(batch, {})});
    ++under_way_;
  }

  void receive() {
    const std::optional<Batch<Response>> batch = server_.outbox(id_).pop();
    for (const std::unique_ptr<Response>& response : batch->items) {
      // Hashing the ends suffices: a value repeats one letter, and an append changes the tail.
      const size_t seen = response->size < 48 ? response->size : 48;
      const std::string_view head(response->body.get(), seen);
      const std::string_view tail(response->body.get() + response->size - seen, seen);
      checksum_ += (digest(head) ^ response->size ^ digest(tail) * 3) * (response->number | 1U);
      ++answered_;
    }
    --under_way_;
  }

  Server& server_;
  int id_;
  uint32_t requests_;
  Random random_;
  std::array<std::vector<std::unique_ptr<Request>>, kShardsPerClient> open_;
  int under_way_ = 0;
  uint64_t checksum_ = 0;
  uint64_t answered_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: kvserver WORKERS CLIENTS REQUESTS-PER-CLIENT\n");
    return 2;
  }
  const int workers = std::atoi(argv[1]);
  const int clients = std::atoi(argv[2]);
  const auto requests = static_cast<uint32_t>(std::atoi(argv[3]));
  if (workers < 1 || clients < 1 || requests < 1) return 2;

  Server server(workers, clients);
  std::vector<std::unique_ptr<Client>> all;
  std::vector<std::thread> threads;
  for (int id = 0; id < clients; ++id) {
    all.push_back(std::make_unique<Client>(server, id, requests));
    threads.emplace_back([&client = *all.back()] { client.run(); });
  }
  for (std::thread& thread : threads) thread.join();
  const uint64_t evicted = server.stop();

  uint64_t checksum = 0;
  uint64_t answered = 0;
  for (const auto& client : all) {
    checksum ^= client->checksum();
    answered += client->answered();
  }
  if (answered != static_cast<uint64_t>(clients) * requests) {
    std::fprintf(stderr, "kvserver: %llu answers\n", static_cast<unsigned long long>(answered));
    return 1;
  }
  std::printf("checksum %016llx evicted %llu\n", static_cast<unsigned long long>(checksum),
              static_cast<unsigned long long>(evicted));
  return 0;
}
