#include "bench/runtime_bench_opening.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "cache/cache.h"

namespace moetune::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kTurns = 31, kWinners = 10'000;

// This process's page faults so far which the operating system served without reading a disk.
long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Milliseconds, by turn.
struct Times {
  std::vector<double> open, family, modules, file, rows, cubins, faults;
};

Cache opened_file(const fs::path& file) {
  std::optional<Cache> settled = Cache::open_settled(file);
  return settled ? *std::move(settled) : Cache::open(file, Cache::Mode::read_only);
}

void time_turn(const fs::path& file, const ManyWinners& many, const Family& family, Times& times) {
  const std::string path = file.string();
  const char* const paths[] = {path.c_str()};
  const moetune_open_options options{sizeof options, paths, 1, 0, 0, nullptr, 0};
  moetune_runtime* runtime = nullptr;
  moetune_family* opened = nullptr;
  const long faults = page_faults();
  times.open.push_back(1e3 * seconds([&] { check(moetune_open(&options, &runtime)); }));
  times.family.push_back(
      1e3 * seconds([&] { check(moetune_family_open(runtime, "decode_attention", family.text.c_str(), &opened)); }));
  times.faults.push_back(static_cast<double>(page_faults() - faults));
  moetune_close(runtime);
  times.modules.push_back(1e3 * seconds([&] { many.load_modules(); }));
  times.file.push_back(1e3 * seconds([&] { opened_file(file); }));
  const Cache cache = opened_file(file);
  std::vector<FamilyWinner> winners;
  times.rows.push_back(1e3 * seconds([&] {
                         winners = cache.winners.of_family(family.kernel.name(), family.text).sound;
                         cache.ranges.of_family(family.kernel.name(), family.text);
                       }));
  times.cubins.push_back(1e3 * seconds([&] {
                           for (std::size_t i = 0; i < many.cubins(); ++i)
                             cache.winners.cubin(winners.front().cubin_digest);
                         }));
}

// The least of all turns but the first.
double least_beyond_loading(const Times& times) {
  double least = times.open[1] + times.family[1] - times.modules[1];
  for (std::size_t i = 2; i < times.open.size(); ++i)
    least = std::min(least, times.open[i] + times.family[i] - times.modules[i]);
  return least;
}

void print_opening(const char* where, const fs::path& file, const ManyWinners& many, const Family& family) {
  Times times;
  time_turn(file, many, family, times);
  const double first = times.open[0] + times.family[0];
  for (int i = 1; i < kTurns; ++i) time_turn(file, many, family, times);
  const double open = median(times.open), whole = median(times.family), modules = median(times.modules);
  const double read = median(times.file), rows = median(times.rows), cubins = median(times.cubins);
  std::printf("open + family of 10,000      %9.2f ms %s, with %.0f page faults; the first time %.2f and %.0f\n",
              open + whole, where, median(times.faults), first, times.faults[0]);
  std::printf("cuModuleLoadData             %9.2f ms for its %zu cubins\n", modules, many.cubins());
  std::printf("  beyond loading             %9.2f ms; at best %.2f   (bar 5)\n", open + whole - modules,
              least_beyond_loading(times));
  std::printf("  of it: moetune_open %.2f; family: file %.2f, rows %.2f, cubins %.2f, table and choices %.2f\n", open,
              read, rows, cubins, whole - modules - read - rows - cubins);
}

}  // namespace

void print_openings(const fs::path& cache, const Family& family) {
  ManyWinners many(cache, family, kWinners);
  const fs::path memory = "/dev/shm";
  std::error_code absent;
  std::optional<fs::path> copy;
  if (fs::is_directory(memory, absent)) copy = many.copy_below(memory);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // as a file that nobody has changed lately
  print_opening("on disk", many.file(), many, family);
  if (copy) print_opening("in /dev/shm", *copy, many, family);
}

}  // namespace moetune::bench
