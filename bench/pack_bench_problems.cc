#include "bench/pack_bench_problems.h"

#include <cmath>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"

namespace moetune::bench {
namespace {

// The standard's distributions differ from library to library; these do not.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::int64_t index(std::size_t count) { return static_cast<std::int64_t>(random_() % count); }
  std::int64_t log_uniform(double low, double high) {
    const double share = static_cast<double>(random_() >> 11) * 0x1p-53;
    return std::llround(low * std::pow(high / low, share));
  }

 private:
  std::mt19937_64 random_;
};

double kv_bytes(const Problem& problem) {
  return 4.0 * static_cast<double>(problem["batch"] * problem["context"]) *
         static_cast<double>(problem["kv_heads"] * problem["head_dim"]);
}

}  // namespace

std::vector<DecodeTraffic> random_decode_traffic(std::size_t count, std::uint64_t seed, double most_kv_bytes) {
  const Kernel& kernel = find_kernel("decode_attention");
  const std::vector<Preset>& presets = kernel.presets();
  Draw draw(seed);
  std::vector<DecodeTraffic> traffic;
  while (traffic.size() < count) {
    const Preset& preset = presets[static_cast<std::size_t>(draw.index(presets.size()))];
    const std::int64_t batch = draw.log_uniform(1, 256), context = draw.log_uniform(300, 100'000);
    const bool is_ragged = batch > 1 && draw.index(2) == 1;
    DecodeTraffic one{.preset = preset.name, .total = is_ragged ? batch * context / 2 : batch * context};
    one.problem = "batch=" + std::to_string(batch) + ",context=" + std::to_string(context) +
                  (draw.index(2) == 1 ? ",page=64" : ",page=16") + (is_ragged ? ",lengths=ragged" : "");
    const Problem problem = kernel.parse(one.problem, &preset);
    if (kv_bytes(problem) <= most_kv_bytes) traffic.push_back(std::move(one));
  }
  return traffic;
}

}  // namespace moetune::bench
