// The fixtures of runtime_bench: a runtime with one family, and a cache of very many winners.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "include/moetune.h"
#include "kernels/kernel.h"

namespace moetune::bench {

void check(moetune_status status);  // throws std::runtime_error with the sentence
double seconds(const std::function<void()>& run);
double median(std::vector<double> values);

class Opened {
 public:
  Opened(const std::filesystem::path& file, const std::string& specialization);
  ~Opened() { moetune_close(runtime_); }
  Opened(const Opened&) = delete;

  moetune_runtime* runtime() const { return runtime_; }
  moetune_family* family() const { return family_; }

 private:
  moetune_runtime* runtime_ = nullptr;
  moetune_family* family_ = nullptr;
};

// The family of a problem of decode_attention.
struct Family {
  explicit Family(const std::string& problem);

  const Kernel& kernel;
  Problem problem;
  std::string text;
  Extents extents;
};

// The family's latest winner of a cache, stored under `count` problems: one in a hundred of its own family, the
// others of families that no kernel has.
class ManyWinners {
 public:
  ManyWinners(const std::filesystem::path& cache, const Family& family, std::int64_t count);
  // A copy of its file in a new folder below `parent`, which goes with this object.
  std::filesystem::path copy_below(const std::filesystem::path& parent);
  ~ManyWinners();
  ManyWinners(const ManyWinners&) = delete;

  const std::filesystem::path& file() const { return file_; }
  std::size_t cubins() const { return cubins_.size(); }  // that the family loads
  void load_modules() const;                             // and unloads them

 private:
  std::filesystem::path new_folder(const std::filesystem::path& parent);

  std::vector<std::filesystem::path> folders_;
  std::filesystem::path file_;
  std::vector<Blob> cubins_;
};

}  // namespace moetune::bench
