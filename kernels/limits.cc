#include "kernels/limits.h"

#include <utility>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// Limits per block and per SM are the architecture's (CUDA C++ Programming Guide, "Compute Capabilities": the
// opt-in maximum of a block is what an SM has less 1 KiB that the system keeps). SM count, L2 and memory
// belong to a product; each row names the one that stands for its architecture.
struct Architecture {
  const char* name;
  const char* product;
  DeviceLimits limits;
};

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> table = {
      {"sm_80", "A100 80 GB", {80, 108, 163 * kKiB, 164 * kKiB, 65536, 2048, 40 * kMiB, 80 * kGiB}},
      {"sm_86", "RTX A6000", {86, 84, 99 * kKiB, 100 * kKiB, 65536, 1536, 6 * kMiB, 48 * kGiB}},
      {"sm_89", "L40S", {89, 142, 99 * kKiB, 100 * kKiB, 65536, 1536, 96 * kMiB, 48 * kGiB}},
      {"sm_90a", "H200", {90, 132, 227 * kKiB, 228 * kKiB, 65536, 2048, 60 * kMiB, 139 * kGiB}},
      {"sm_100a", "B200", {100, 148, 227 * kKiB, 228 * kKiB, 65536, 2048, 126 * kMiB, 178 * kGiB}},
      {"sm_103a", "B300", {103, 148, 227 * kKiB, 228 * kKiB, 65536, 2048, 126 * kMiB, 268 * kGiB}},
      {"sm_120a", "RTX PRO 6000", {120, 188, 99 * kKiB, 100 * kKiB, 65536, 1536, 128 * kMiB, 96 * kGiB}},
      {"sm_121a", "GB10", {121, 48, 99 * kKiB, 100 * kKiB, 65536, 1536, 24 * kMiB, 119 * kGiB}},
  };
  return table;
}

}  // namespace

std::string architecture_name(int compute_capability) {
  // Every architecture since Hopper has instructions (wgmma, setmaxnreg, tcgen05) that only its own "a"
  // target knows.
  return "sm_" + std::to_string(compute_capability) + (compute_capability >= 90 ? "a" : "");
}

const std::vector<std::string>& known_architectures() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Architecture& architecture : architectures()) all.emplace_back(architecture.name);
    return all;
  }();
  return names;
}

namespace {

const DeviceLimits* limits_by_name(const std::string& name) {
  for (const Architecture& known : architectures()) {
    if (name == known.name) return &known.limits;
  }
  return nullptr;
}

}  // namespace

DeviceLimits limits_of_architecture(const std::string& architecture) {
  if (const DeviceLimits* known = limits_by_name(architecture)) return *known;
  if (architecture.size() > 3 && limits_by_name(architecture + "a") != nullptr)
    throw BadInput("unknown architecture '" + architecture + "'; did you mean '" + architecture + "a'?");
  std::string sentence = "unknown architecture '" + architecture + "'; known: ";
  for (const std::string& name : known_architectures()) sentence += (name == "sm_80" ? "" : ", ") + name;
  throw BadInput(sentence);
}

}  // namespace moetune
