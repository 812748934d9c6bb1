// Caches of winners for the scripted driver (tests/fake_cuda), whose module images say what they were compiled for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "kernels/problem.h"
#include "launch/device_info.h"

namespace moetune::testing {

// The hardware that the scripted driver reports; opens that driver once.
const DeviceInfo& fake_device();

// A configuration that the scripted driver computes: the mma body without splits.
std::string plain_config(int tile = 64);

struct FakeWinner {
  std::string problem;                  // "batch=4,q_heads=8,kv_heads=1,context=512,page=16"; the rest as usual
  std::string config = plain_config();  // "": the kernel's own of that kind
  std::string default_config;           // "": no default is stored
  double time_us = 10;
  std::string interface;  // "": the right one
  bool contended = false;
  std::string origin = "gpu";
  int sm_count = 0;  // 0: the scripted device's; so is the next
  int compute_capability = 0;
  std::string kernel = "decode_attention";
  Timing timing = Timing::overlapped;
};

// A configuration as it is stored, with a cubin for the scripted driver.
StoredLaunch fake_launch(const Problem& problem, const std::string& config);

void store(Cache& cache, const FakeWinner& winner);
void store(const std::filesystem::path& file, const std::vector<FakeWinner>& winners);

}  // namespace moetune::testing
