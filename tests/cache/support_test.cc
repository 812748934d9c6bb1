// The helpers of support.h; a *_test.cc so that the test program takes it in, without cases of its own.
#include "tests/cache/support.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "base/error.h"
#include "tests/refusal.h"

namespace cache_test {

static fs::path parent_of(TempDir::Place place) {
  const fs::path memory = "/dev/shm";
  const bool in_memory = place == TempDir::Place::memory && ::access(memory.c_str(), W_OK) == 0;
  return in_memory ? memory : fs::temp_directory_path();
}

TempDir::TempDir(Place place) : TemporaryFolder(parent_of(place)) {}

std::map<std::string, std::string> TempDir::content() const {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path())) {
    if (entry.is_regular_file()) files[fs::relative(entry.path(), path()).string()] = read_file(entry.path());
  }
  return files;
}

moetune::HardwareKey h200() {
  return {"NVIDIA H200", 90, 132, 60 << 20, std::int64_t{139} << 30, 1980000, 3201000, "gpu", "580.1"};
}

moetune::WorkloadKey workload_key(const std::string& problem) {
  return {"decode_attention", problem, h200(), "0123456789abcdef", "nvrtc 13.0.88"};
}

moetune::TrialRecord trial(int number) {
  return {"tile=" + std::to_string(number),
          "ok",
          "",
          100.0 + number,
          99.5 + number,
          100.5 + number,
          7,
          R"({"registers": 128})",
          R"({"seed": 1})"};
}

moetune::WinnerRecord winner(int number) {
  moetune::WinnerRecord record;
  record.config = "tile=" + std::to_string(number);
  record.plan = "{\"launches\": \"" + record.config + "\"}";
  record.interface = "interface " + std::to_string(number);
  record.cubin = random_bytes(50'000, static_cast<std::uint64_t>(number));
  record.time_us = 10.0 + number;
  record.interval_low_us = 9.5;
  record.interval_high_us = 10.5;
  record.default_time_us = 20;
  record.roofline = 0.85;
  record.provenance = R"({"trials": 200})";
  return record;
}

moetune::Blob random_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  moetune::Blob bytes(size);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void raw_sql(const fs::path& path, const std::string& sql) {
  SQLite::Database(path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, 5000).exec(sql);
}

std::string raw_text(const fs::path& path, const std::string& sql) {
  return SQLite::Database(path.string(), SQLite::OPEN_READWRITE, 5000).execAndGet(sql.c_str()).getString();
}

std::string broken(const std::function<void()>& action) {
  return moetune::refusal_of<moetune::BrokenEnvironment>([&] { action(); });
}

pid_t start(const std::function<void()>& body) {
  std::cout.flush();  // or the child would say it again
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child > 0) return child;
  try {
    body();
    ::_exit(0);
  } catch (const std::exception& error) {
    std::cerr << "child: " << error.what() << std::endl;
    ::_exit(1);
  }
}

int finish(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::optional<std::string> on_small_disk(const fs::path& mount_point, std::size_t bytes,
                                         const std::function<std::string()>& body) {
  constexpr char kDenied = 'd', kRan = 'r';
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  fs::create_directories(mount_point);
  const pid_t child = start([&] {
    // In namespaces of its own: no other process sees the mount, and it goes with the child.
    const bool root = ::geteuid() == 0;
    const std::string user = "0 " + std::to_string(::geteuid()) + " 1";
    bool mounted = ::unshare(root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) == 0;
    if (mounted && !root) write_file("/proc/self/uid_map", user);
    mounted = mounted && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
              ::mount("tmpfs", mount_point.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) == 0;
    const std::string report = mounted ? kRan + body() : std::string(1, kDenied);
    if (::write(ends[1], report.data(), report.size()) < 0) throw std::runtime_error("cannot report");
  });
  ::close(ends[1]);
  std::string report;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;)
    report.append(buffer, static_cast<std::size_t>(got));
  ::close(ends[0]);
  if (finish(child) != 0 || report.empty()) return "the child failed";
  if (report.front() == kDenied) return std::nullopt;
  return report.substr(1);
}

bool make_read_only(const fs::path& mount_point) {
  return ::mount(nullptr, mount_point.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
}

}  // namespace cache_test
