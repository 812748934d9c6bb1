#include "cli/options.h"

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {

void declare_workload(OptionTable& table, WorkloadSpec& workload, bool kernel_required) {
  table.positional("KERNEL", workload.kernel, kernel_required, "a kernel's name (see: moetune kernels)");
  table.text("problem", "DIMS", workload.problem, "the workload: batch=64,context=8192; the rest by default");
  table.text("preset", "NAME", workload.preset, "a model's dimensions (see: moetune kernels KERNEL)");
}

void declare_device(OptionTable& table, std::string& device) {
  table.text(
      "device", "DEVICE", device,
      "auto (an idle GPU), cuda:N, or replay:FILE for recorded measurements; a UUID (GPU-..., of a slice MIG-...) or "
      "a PCI id names a GPU too");
}

void declare_gpu(OptionTable& table, std::string& device) {
  table.text("device", "DEVICE", device, "auto (an idle GPU), cuda:N, a UUID or a PCI id");
}

void declare_cache_path(OptionTable& table, CacheChoice& cache) {
  table.text("cache", "FILE", cache.path, "the cache file; by default below $XDG_CACHE_HOME");
}

void declare_cache(OptionTable& table, CacheChoice& cache) {
  declare_cache_path(table, cache);
  table.flag("no-cache", cache.none, "neither read nor store results");
}

void require_kernel(const JobTarget& target) {
  if (target.workload.kernel || target.device.starts_with("replay:")) return;
  throw BadInput("which KERNEL? `moetune kernels` lists them");
}

void declare_threads(OptionTable& table, std::uint64_t& threads) {
  table.whole("threads", threads, 0, 1024, "compiler processes, at most 16: more count as 16; 0: one a core");
}

void declare_timing(OptionTable& table, std::string& timing, const std::string& otherwise) {
  table.text(
      "timing", "NAME", timing,
      "chained (behind a kernel that writes the fresh inputs), overlapped or alone (" + otherwise + ")");
}

Timing read_timing(const std::string& text, Timing otherwise) {
  if (text.empty()) return otherwise;
  if (const std::optional<Timing> timing = timing_from_name(text)) return *timing;
  std::vector<std::string> names;
  for (const Timing timing : kTimings) names.emplace_back(timing_name(timing));
  throw BadField("timing", unknown_name("timing", text, names));
}

}  // namespace moetune
