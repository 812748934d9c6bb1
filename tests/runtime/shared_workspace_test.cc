// Launches that share a workspace are put on the stream whole, whatever other threads do, and wait for nobody else.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "runtime/workspace_turn.h"
#include "tests/fake_cuda/launch_record.h"
#include "tests/runtime/decode_tensors.h"
#include "tests/runtime/driver_calls.h"
#include "tests/runtime/fake_cache.h"
#include "tests/runtime/opened.h"
#include "tests/within_a_while.h"

namespace moetune::shared_workspace_test {
using namespace testing;
using fake_cuda::LaunchRecord;

namespace {

void* handle(std::uintptr_t value) { return reinterpret_cast<void*>(value); }
void* const kLegacy = handle(1);
void* const kPerThread = handle(2);

constexpr int kThreads = 8, kCalls = 100;  // of each thread
constexpr const char* kAttention = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=16";
constexpr const char* kWhole = "batch=2,q_heads=4,kv_heads=1,head_dim=64,context=512,page=64";
constexpr const char* kRouter = "tokens=64,experts=16,top_k=2";

// The first configuration whose parameter has this value, and that the scripted driver computes.
std::string config_with(const char* kernel, const char* problem, const char* parameter, const char* value) {
  const Kernel& of = find_kernel(kernel);
  const LegalSpace legal =
      shared_space(kernel).enumerate(expression_environment(of.parse(problem), fake_device().limits));
  for (ConfigId i = 0; i < legal.size(); ++i) {
    const Config config = legal.config(i);
    if (config.is(parameter, value) && config.text().find("body=tma") == std::string::npos) return config.text();
  }
  throw std::logic_error(std::string(kernel) + " has no configuration with " + parameter + "=" + value);
}

// Memory for tensors that nobody looks at; zeros where it is read.
class Bytes {
 public:
  explicit Bytes(std::size_t bytes) : bytes_(bytes + 256) {}
  void* data() { return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(bytes_.data()) + 255) / 256 * 256); }

 private:
  std::vector<std::uint8_t> bytes_;
};

// A choice with scratch has two launches, the second of which reads what the first has written there.
struct Call {
  moetune_family* family = nullptr;
  moetune_choice choice{};
  moetune_arguments arguments{};
  std::size_t workspace_bytes = 0;

  Call(const Opened& opened, const char* kernel, const char* specialization, const std::vector<std::int64_t>& extents) {
    REQUIRE_OK(moetune_family_open(opened.runtime(), kernel, specialization, &family));
    REQUIRE_OK(moetune_pick(family, extents.data(), extents.size(), 0, &choice));
    REQUIRE_OK(moetune_choice_workspace(family, &choice, &workspace_bytes));
  }

  bool has_scratch() const { return workspace_bytes > MOETUNE_WORKSPACE_COUNTERS; }
  // Of lengths that are 0, so that there is little to compute.
  void bind(DecodeTensors& tensors) {
    std::fill_n(static_cast<std::int32_t*>(tensors.tensor(MOETUNE_DECODE_LENGTHS).data), 2, 0);
    std::int64_t extents[MOETUNE_MAX_EXTENTS];
    std::size_t count = 0;
    REQUIRE_OK(
        moetune_bind(family, tensors.tensors().data(), tensors.tensors().size(), nullptr, &arguments, extents, &count));
  }

  // Half of the threads have arguments of their own: the others meet at one bound plan.
  moetune_status launch(int thread, void* workspace, void* stream) const {
    moetune_arguments given = arguments;
    given.reals[0] *= 1 + thread / 2;
    return moetune_launch(family, &choice, &given, workspace, workspace_bytes, stream);
  }
};

class Server {
 public:
  Server()
      : folder_(),
        opened_({stored(folder_)}),
        attention(opened_, "decode_attention", "group=4,head_dim=64,page=16", {2, 1, 512}),
        whole(opened_, "decode_attention", "group=4,head_dim=64,page=64", {2, 1, 512}),
        router(opened_, "router", "experts=16,top_k=2", {64}) {
    REQUIRE(attention.has_scratch());
    REQUIRE(router.has_scratch());
    REQUIRE(!whole.has_scratch());
    attention.bind(tensors_);
    whole.bind(whole_tensors_);
    for (std::size_t slot = 0; slot < router_tensors_.size(); ++slot)
      router.arguments.tensors[slot] = router_tensors_[slot].data();
    router.arguments.integers[MOETUNE_ROUTER_LOGITS_ROW] = 16;
    router.arguments.reals[MOETUNE_ROUTER_SCALE] = 1;
  }

  // What each of `kThreads` threads launches by `launch(thread, call)`, as it reached the driver.
  template <typename Launch>
  std::vector<LaunchRecord> record(const Launch& launch) {
    std::vector<LaunchRecord> records(2 * kThreads * kCalls + 1);
    call_driver("fakeRecordLaunches", records.data(), static_cast<int>(records.size()));
    std::atomic<int> failures{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int call = 0; call < kCalls; ++call) failures += launch(thread, call) != MOETUNE_OK;
      });
    }
    for (std::thread& thread : threads) thread.join();
    records.resize(static_cast<std::size_t>(call_driver("fakeRecordLaunches", static_cast<LaunchRecord*>(nullptr), 0)));
    CHECK(failures == 0);
    CHECK(records.size() == 2 * kThreads * kCalls);
    return records;
  }

 private:
  static std::filesystem::path stored(const Folder& folder) {
    store(folder / "cache.db",
          {{.problem = kAttention, .config = config_with("decode_attention", kAttention, "combine", "kernel")},
           {.problem = kWhole, .config = plain_config(32)},
           {.problem = kRouter, .config = config_with("router", kRouter, "schedule", "split"), .kernel = "router"}});
    return folder / "cache.db";
  }

  const Folder folder_;
  const Opened opened_;
  DecodeTensors tensors_{kAttention}, whole_tensors_{kWhole};
  std::vector<Bytes> router_tensors_ = std::vector<Bytes>(MOETUNE_MAX_TENSORS, Bytes(16 << 10));

 public:
  Call attention, whole, router;  // `whole` has no scratch
};

std::string name_of(const LaunchRecord& record) { return record.kernel.data(); }

// Where a launch stands between the two of another plan on the same stream; "" if all are whole.
std::string first_torn(const std::vector<LaunchRecord>& records) {
  const std::map<std::string, std::string> second = {{"decode_attention", "decode_attention_combine"},
                                                     {"router", "router_place"}};
  std::map<std::pair<void*, long>, const LaunchRecord*> begun;
  for (const LaunchRecord& record : records) {
    const LaunchRecord*& first =
        begun[{record.stream == kLegacy ? nullptr : record.stream, record.stream == kPerThread ? record.thread : 0}];
    if (first == nullptr) {
      if (!second.contains(name_of(record))) return name_of(record) + " without its first launch";
      first = &record;
    } else if (record.thread != first->thread || name_of(record) != second.at(name_of(*first))) {
      return name_of(record) + " behind " + name_of(*first) + " of another call";
    } else {
      first = nullptr;
    }
  }
  return "";
}

void* make_stream() {
  void* stream = nullptr;
  REQUIRE(call_driver("cuStreamCreate", &stream, 1U) == 0);
  return stream;
}

}  // namespace

TEST_CASE("launches over one workspace are put on their stream whole, from any thread") {
  Server server;
  Bytes workspace(std::max(server.attention.workspace_bytes, server.router.workspace_bytes));
  REQUIRE_OK(server.router.launch(0, workspace.data(), nullptr));  // makes the device's context current
  void* const own = make_stream();
  void* const streams[][2] = {{own, own}, {nullptr, kLegacy}};  // which are one stream
  for (const auto& pair : streams) {
    const auto records = server.record([&](int thread, int call) {
      const Call& one = (thread + call) % 2 == 0 ? server.attention : server.router;
      return one.launch(thread, workspace.data(), pair[call / 2 % 2]);
    });
    CHECK(first_torn(records) == "");
  }
  REQUIRE(call_driver("cuStreamDestroy", own) == 0);
}

TEST_CASE("threads that use cudaStreamPerThread have a stream each, with a workspace each") {
  Server server;
  std::vector<Bytes> workspaces(kThreads,
                                Bytes(std::max(server.attention.workspace_bytes, server.router.workspace_bytes)));
  const auto records = server.record([&](int thread, int call) {
    const Call& one = (thread + call) % 2 == 0 ? server.attention : server.router;
    return one.launch(thread, workspaces[static_cast<std::size_t>(thread)].data(), kPerThread);
  });
  CHECK(first_torn(records) == "");
}

TEST_CASE("a turn is one thread's at a time, and turns of other addresses are free meanwhile") {
  constexpr std::uint64_t kAddresses = 200;
  std::vector<int> taken(kAddresses);  // guarded by turns alone
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 0; i < 10 * kAddresses; ++i) {
        const WorkspaceTurn turn(0x7f0000000000 + 256 * (i % kAddresses));
        const int before = taken[i % kAddresses];
        std::this_thread::yield();  // so that others come to wait
        taken[i % kAddresses] = before + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::count(taken.begin(), taken.end(), 10 * kThreads) == kAddresses);
  std::vector<std::unique_ptr<WorkspaceTurn>> held;
  for (std::uint64_t i = 1; i <= kAddresses; ++i) held.push_back(std::make_unique<WorkspaceTurn>(256 * i));
}

TEST_CASE("a turn that ends is that of the thread which waits for its address, whoever else waits") {
  constexpr std::uint64_t kAddresses = 80;  // more than there are lines to wait in
  std::vector<std::unique_ptr<WorkspaceTurn>> held;
  for (std::uint64_t i = 1; i <= kAddresses; ++i) held.push_back(std::make_unique<WorkspaceTurn>(256 * i));
  std::vector<std::atomic<bool>> has_ended(kAddresses);
  std::atomic<std::size_t> served = 0, early = 0;
  std::vector<std::jthread> waiting;
  for (std::size_t i = 0; i < kAddresses; ++i) {
    waiting.emplace_back([&, i] {
      const WorkspaceTurn turn(256 * (i + 1));
      if (!has_ended[i]) ++early;
      ++served;
    });
  }
  for (std::size_t i = 0; i < kAddresses; ++i) {
    has_ended[i] = true;
    held[i].reset();
    REQUIRE(within_a_while([&] { return served > i; }));
  }
  CHECK(early == 0);
}

TEST_CASE("a launch that waits in a full queue holds up those that use its workspace, and no others") {
  Server server;
  Bytes memory(std::size_t{1} << 20);
  const auto workspace = [&](std::size_t number) { return static_cast<std::uint8_t*>(memory.data()) + 256 * number; };
  REQUIRE_OK(server.router.launch(0, workspace(0), nullptr));
  void* const full = make_stream();
  void* const free = make_stream();
  std::vector<LaunchRecord> records(4096);
  call_driver("fakeRecordLaunches", records.data(), static_cast<int>(records.size()));
  call_driver("fakeFillQueue", full);
  std::atomic<int> begun{0}, ended{0}, failures{0};
  const auto launch_in_thread = [&](void* stream) {
    return std::thread([&, stream] {
      ++begun;
      failures += server.attention.launch(0, workspace(0), stream) != MOETUNE_OK;
      ++ended;
    });
  };
  std::thread waiting = launch_in_thread(full);
  CHECK(within_a_while([&] { return call_driver("fakeCountWaiting") == 1; }));
  std::thread behind = launch_in_thread(free);
  CHECK(within_a_while([&] { return begun == 2; }));
  // So many that a lock which two addresses share would be met. (Nothing is written to them here.)
  failures += server.whole.launch(0, workspace(0), free) != MOETUNE_OK;
  constexpr int kOthers = 1000;
  for (int other = 1; other <= kOthers; ++other)
    failures += server.attention.launch(0, workspace(static_cast<std::size_t>(other)), free) != MOETUNE_OK;
  CHECK(ended == 0);
  call_driver("fakeFillQueue", static_cast<void*>(nullptr));
  waiting.join();
  behind.join();
  CHECK(failures == 0);
  const int count = call_driver("fakeRecordLaunches", static_cast<LaunchRecord*>(nullptr), 0);
  REQUIRE(count == 1 + 2 * kOthers + 4);
  const std::vector<void*> last = {full, full, free, free};
  for (std::size_t i = 0; i < 4; ++i) CHECK(records[static_cast<std::size_t>(count) - 4 + i].stream == last[i]);
  REQUIRE(call_driver("cuStreamDestroy", full) == 0);
  REQUIRE(call_driver("cuStreamDestroy", free) == 0);
}

}  // namespace moetune::shared_workspace_test
