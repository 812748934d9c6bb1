#include "tests/runtime/fake_cache.h"

#include <cstdlib>

#include "base/error.h"
#include "kernels/kernel_space.h"
#include "kernels/plan_interface.h"
#include "kernels/registry.h"
#include "launch/driver.h"
#include "tests/paths.h"

namespace moetune::testing {
namespace {

Blob image_of(const Problem& problem) {
  if (problem.kernel != "decode_attention") {
    const std::string text =
        "moetune fake cubin of " + find_kernel(problem.kernel).specialization(problem).text() + "\n";
    return Blob(text.begin(), text.end());
  }
  const std::string text = "moetune fake cubin head_dim=" + std::to_string(problem["head_dim"]) +
                           " group=" + std::to_string(problem["q_heads"] / problem["kv_heads"]) +
                           " page=" + std::to_string(problem["page"]) + " q_len=" + std::to_string(problem["q_len"]) +
                           "\n";
  return Blob(text.begin(), text.end());
}

// The default, but where the scripted driver computes another one alone: without tensor maps.
std::string usual_config(const Kernel& kernel, const Problem& problem) {
  if (kernel.name() == "decode_attention") return plain_config(64);
  if (kernel.name() == "prefill_attention")
    return "body=mma,warpgroups=1,tile=32,stages=1,query_stages=1,packed=0,overlap=0,ping_pong=0,lag=8,poly=0,trim=0,"
           "schedule=grid,cluster=1,section=0,splits=1";
  if (kernel.name() == "moe_experts")
    return std::string(
               "body=mma,rows=16,warps=4,up_stages=2,down_stages=2,residents=1,launches=3,weights=keep,"
               "schedule=persistent,") +
           (problem.is("w", "e4m3") ? "depth=128,up_columns=128,down_columns=256"
                                    : "depth=64,up_columns=64,down_columns=128");
  const auto config = shared_space(kernel.name()).default_config(expression_environment(problem, fake_device().limits));
  if (!config.has_value()) throw BadInput(kernel.name() + ": the space has no default for " + problem.text());
  return config->text();
}

StoredLaunch launch_of(const Kernel& kernel, const Problem& problem, const std::string& config) {
  const auto launcher =
      kernel.launcher(shared_space(kernel.name()).parse_config(config), problem, fake_device().limits);
  LaunchPlan plan;
  launcher->plan(kernel.extents_of(problem), Call{}, plan);
  StoredLaunch stored;
  stored.config = config;
  stored.plan = "{}";
  stored.interface = interface_digest(launcher->unit(), plan);
  stored.cubin = image_of(problem);
  const std::string unit = launcher->unit().defines.empty() ? "" : config.substr(0, config.find(",splits"));
  stored.cubin.insert(stored.cubin.end(), unit.begin(), unit.end());  // another cubin, another digest
  return stored;
}

}  // namespace

const DeviceInfo& fake_device() {
  static const DeviceInfo device = [] {
    ::setenv("MOETUNE_LIBCUDA", paths::fake_libcuda(), 1);
    const char* const script = std::getenv("MOETUNE_FAKE_CUDA");
    const std::string before = script != nullptr ? script : "";
    ::setenv("MOETUNE_FAKE_CUDA", (before + ",devices=2").c_str(),
             1);  // of this process, and none of its workers
    cuda::initialize();
    ::setenv("MOETUNE_FAKE_CUDA", before.c_str(), 1);
    return cuda::describe_device(0);
  }();
  return device;
}

std::string plain_config(int tile) {
  return "body=mma,math=mma16,schedule=grid,residents=0,tile=" + std::to_string(tile) +
         ",warps=" + std::to_string(tile / 16) +
         ",stages=2,producers=0,row_tiles=1,query=shared,l2=evict_first,splits=1,combine=none,ahead=0";
}

StoredLaunch fake_launch(const Problem& problem, const std::string& config) {
  return launch_of(find_kernel(problem.kernel), problem, config);
}

void store(Cache& cache, const FakeWinner& winner) {
  const Kernel& kernel = find_kernel(winner.kernel);
  const Problem problem = kernel.parse(winner.problem);
  WorkloadKey key{kernel.name(), problem.text(), fake_device().key, "sources", "nvrtc 13.0"};
  key.hardware.origin = winner.origin;
  key.timing = winner.timing;
  if (winner.sm_count > 0) key.hardware.sm_count = winner.sm_count;
  if (winner.compute_capability > 0) key.hardware.compute_capability = winner.compute_capability;
  WinnerRecord record;
  static_cast<StoredLaunch&>(record) =
      launch_of(kernel, problem, winner.config.empty() ? usual_config(kernel, problem) : winner.config);
  if (!winner.interface.empty()) record.interface = winner.interface;
  if (!winner.default_config.empty()) record.default_launch = launch_of(kernel, problem, winner.default_config);
  record.time_us = winner.time_us;
  record.interval_low_us = record.interval_high_us = winner.time_us;
  record.default_time_us = 2 * winner.time_us;
  record.provenance = "{}";
  record.contended = winner.contended;
  cache.winners.put(cache.workloads.id(key, kernel.specialization(problem).text()), record);
}

void store(const std::filesystem::path& file, const std::vector<FakeWinner>& winners) {
  Cache cache = Cache::open(file, Cache::Mode::create);
  for (const FakeWinner& winner : winners) store(cache, winner);
}

}  // namespace moetune::testing
