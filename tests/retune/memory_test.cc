// What memory there is, read from made-up /proc and /sys, and waiting for it.
#include "retune/memory.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "tests/temporary_folder.h"

using namespace moetune;

namespace {

constexpr std::int64_t kMiB = 1 << 20;

struct Root : TemporaryFolder {
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name) << text;
  }
};

}  // namespace

TEST_CASE("free memory is the least of the machine's and that of the process's groups") {
  const Root root;
  CHECK_FALSE(free_host_memory(root.path()));
  root.write("proc/meminfo", "MemTotal: 9000000 kB\nMemFree: 1 kB\nMemAvailable:    8192 kB\n");
  CHECK(free_host_memory(root.path()) == 8 * kMiB);
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  root.write("sys/fs/cgroup/a/b/memory.current", "1\n");
  CHECK(free_host_memory(root.path()) == 8 * kMiB);
  root.write("sys/fs/cgroup/a/memory.max", std::to_string(5 * kMiB));
  root.write("sys/fs/cgroup/a/memory.current", std::to_string(3 * kMiB));
  CHECK(free_host_memory(root.path()) == 2 * kMiB);
  root.write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file " + std::to_string(kMiB) + "\n");
  CHECK(free_host_memory(root.path()) == 3 * kMiB);
}

TEST_CASE("groups of version 1 limit too, and no limit there is a large number") {
  const Root root;
  root.write("proc/meminfo", "MemAvailable: 8192 kB\n");
  root.write("proc/self/cgroup", "3:cpu:/x\n9:memory:/docker/1\n");
  root.write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "9223372036854771712");
  root.write("sys/fs/cgroup/memory/docker/1/memory.usage_in_bytes", "4096");
  CHECK(free_host_memory(root.path()) == 8 * kMiB);
  root.write("sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", std::to_string(kMiB));
  CHECK(free_host_memory(root.path()) == kMiB - 4096);
}

TEST_CASE("this machine's memory can be read") { CHECK(free_host_memory().value_or(0) > 0); }

TEST_CASE("a shortage names who is short of how much; what can never fit is not waited for") {
  const MemoryNeed need{.gpu_bytes = 2048 * kMiB, .host_bytes = 512 * kMiB};
  CHECK(memory_shortage(need, {}, 4096 * kMiB).empty());
  CHECK(memory_shortage(need, {3000 * kMiB, 600 * kMiB}, 4096 * kMiB).empty());
  CHECK(memory_shortage(need, {1024 * kMiB, 600 * kMiB}, 4096 * kMiB) ==
        "the GPU has 1.00 GiB free and this workload takes 2.00 GiB");
  CHECK(memory_shortage(need, {1024 * kMiB, 600 * kMiB}, 1024 * kMiB).empty());
  CHECK(memory_shortage(need, {3000 * kMiB, 256 * kMiB}, 4096 * kMiB) ==
        "the host has 0.25 GiB free and this workload takes 0.50 GiB");
}

TEST_CASE("waiting is bounded, says so once, and ends when there is memory or a stop") {
  using namespace std::chrono_literals;
  int asked = 0, said = 0;
  const auto say = [&](const std::string& why) { said += why == "short"; };
  const auto short_for = [&](int times) {
    asked = 0;
    return [&asked, times]() -> std::string { return asked++ < times ? "short" : ""; };
  };
  CHECK(wait_for_memory(short_for(0), 1, {}, say, 1ms).empty());
  CHECK(said == 0);
  CHECK(wait_for_memory(short_for(3), 10, {}, say, 1ms).empty());
  CHECK(asked == 4);
  CHECK(said == 1);
  CHECK(wait_for_memory(short_for(1'000'000), 0.02, {}, say, 1ms) == "short");
  CHECK(wait_for_memory(short_for(1'000'000), 0, {}, say, 1ms) == "short");
  CHECK(asked == 1);
  std::stop_source stop;
  stop.request_stop();
  CHECK(wait_for_memory(short_for(1'000'000), 1000, stop.get_token(), say, 1ms) == "short");
}
