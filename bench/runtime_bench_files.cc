#include "bench/runtime_bench_files.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "base/error.h"
#include "kernels/registry.h"
#include "launch/driver.h"

namespace moetune::bench {

namespace fs = std::filesystem;

void check(moetune_status status) {
  if (status != MOETUNE_OK) throw std::runtime_error(moetune_last_error());
}

double seconds(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

Opened::Opened(const fs::path& file, const std::string& specialization) {
  const std::string path = file.string();
  const char* const paths[] = {path.c_str()};
  const moetune_open_options options{sizeof options, paths, 1, 0, 0};
  check(moetune_open(&options, &runtime_));
  const moetune_status status = moetune_family_open(runtime_, "decode_attention", specialization.c_str(), &family_);
  if (status == MOETUNE_OK) return;
  const std::runtime_error failure(moetune_last_error());
  moetune_close(runtime_);
  throw failure;
}

Family::Family(const std::string& problem_text)
    : kernel(find_kernel("decode_attention")),
      problem(kernel.parse(problem_text)),
      text(kernel.specialization(problem).text()),
      extents(kernel.extents_of(problem)) {}

ManyWinners::ManyWinners(const fs::path& cache, const Family& family, std::int64_t count) {
  const Cache source = Cache::open(cache, Cache::Mode::read_only);
  const std::vector<FamilyWinner> own = source.winners.of_family(family.kernel.name(), family.text).sound;
  if (own.empty()) throw BadInput("the cache has no winner of " + family.text);
  const WinnerRecord winner = source.winners.find(own.front().workload.id).value();
  file_ = new_folder(fs::temp_directory_path()) / "many.db";
  Cache many = Cache::open(file_, Cache::Mode::create);
  const Assignment specialization = family.kernel.specialization(family.problem);
  for (std::int64_t i = 0; i < count; ++i) {
    const Extents extents{1 + i / 100 % 10, family.extents[1], 64 * (1 + i / 1000)};
    WorkloadKey key = own.front().workload.key;
    key.problem = family.kernel.problem_of(specialization, extents).text();
    const std::string other = i % 100 == 0 ? "" : ",other=" + std::to_string(i % 100);
    key.problem += other;
    many.winners.put(many.workloads.id(key, family.text + other), winner);
  }
  cubins_.push_back(winner.cubin);
  if (!winner.default_launch.config.empty() && winner.default_launch.cubin != winner.cubin)
    cubins_.push_back(winner.default_launch.cubin);
}

ManyWinners::~ManyWinners() {
  std::error_code ignored;
  for (const fs::path& folder : folders_) fs::remove_all(folder, ignored);
}

fs::path ManyWinners::new_folder(const fs::path& parent) {
  std::string name = (parent / "runtime_bench.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder below " + parent.string());
  return folders_.emplace_back(name);
}

fs::path ManyWinners::copy_below(const fs::path& parent) {
  const fs::path copy = new_folder(parent) / "many.db";
  fs::copy_file(file_, copy);
  return copy;
}

void ManyWinners::load_modules() const {
  for (const Blob& cubin : cubins_) cuda::load_module(cubin);
}

}  // namespace moetune::bench
