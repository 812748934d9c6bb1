// Random problems of decode_attention as servers have them, for measuring a pack where nothing was tuned.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace moetune::bench {

struct DecodeTraffic {
  std::string preset;
  std::string problem;     // over the preset
  std::int64_t total = 0;  // about how many tokens, as a server would know
};

// A model's preset, pages of 16 or 64, a batch of 1 to 256 and a longest context of 300 to 100,000, both
// log-uniform, every other one ragged. No problem has more than `most_kv_bytes` of keys and values.
// Equal seeds give equal problems.
std::vector<DecodeTraffic> random_decode_traffic(std::size_t count, std::uint64_t seed, double most_kv_bytes);

}  // namespace moetune::bench
