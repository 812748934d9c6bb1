#include "cli/options.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/lists.h"
#include "base/suggest.h"
#include "kernels/registry.h"
#include "ranges/grid.h"

namespace moetune {
namespace {

// Joins --problem and the options of dimensions. If both name a dimension, the later one holds.
class ShapeWords {
 public:
  void set_problem(const std::string& text) {
    problem_ = text;
    const std::string parts = "," + text;
    std::erase_if(dimensions_, [&](const auto& one) { return parts.find("," + one.first + "=") != std::string::npos; });
  }
  void set_dimension(const std::string& name, const std::string& value) {
    std::erase_if(dimensions_, [&](const auto& one) { return one.first == name; });
    dimensions_.emplace_back(name, value);
    std::string parts = "," + problem_;
    if (const std::size_t at = parts.find("," + name + "="); at != std::string::npos) {
      parts.erase(at, std::min(parts.find(',', at + 1), parts.size()) - at);
      problem_ = parts.substr(std::min<std::size_t>(1, parts.size()));
    }
  }
  std::string text() const {
    std::string text = problem_;
    for (const auto& [name, value] : dimensions_) text += (text.empty() ? "" : ",") + name + "=" + value;
    return text;
  }

 private:
  std::string problem_;
  std::vector<std::pair<std::string, std::string>> dimensions_;
};

// Throws BadInput unless the kernel, if it is one, has that dimension and the dimension that value.
void check_dimension(const std::optional<std::string>& kernel_name, const std::string& name, const std::string& value) {
  const std::string option = "--" + dimension_option(name);
  if (value.empty() || value.find_first_of(",=") != std::string::npos)
    throw BadInput(option + " takes one value, not '" + value + "'");
  const Kernel* const kernel = kernel_name ? known_kernel(*kernel_name) : nullptr;
  if (kernel == nullptr) return;
  const auto found = std::ranges::find(kernel->schema(), name, &Dimension::name);
  if (found == kernel->schema().end()) {
    throw BadInput(unknown_name("dimension of " + kernel->name(), option, kernel->schema(),
                                [](const Dimension& one) { return "--" + dimension_option(one.name); }));
  }
  try {
    parse_problem(kernel->name(), {*found}, nullptr, name + "=" + value);
  } catch (const BadInput& error) {
    throw BadInput(option + ": " + error.what());
  }
}

void declare_dimensions(OptionTable& table, WorkloadSpec& workload, const std::shared_ptr<ShapeWords>& words) {
  std::set<std::string> declared;
  for (const Kernel* const kernel : all_kernels()) {
    for (const Dimension& dimension : kernel->schema()) {
      if (!declared.insert(dimension.name).second) continue;
      table.add({.name = dimension_option(dimension.name),
                 .value_name = "VALUE",
                 .doc = "a dimension of the workload",
                 .set =
                     [&workload, words, name = dimension.name](const std::string& value) {
                       check_dimension(workload.kernel, name, value);
                       words->set_dimension(name, value);
                       workload.problem = words->text();
                     },
                 .is_dimension = true});
    }
  }
}

}  // namespace

std::string dimension_option(const std::string& dimension) {
  std::string option = dimension;
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

void declare_workload(OptionTable& table, WorkloadSpec& workload, bool kernel_required) {
  table.positional("KERNEL", workload.kernel, kernel_required, "a kernel's name (see: moetune kernels)");
  const auto words = std::make_shared<ShapeWords>();
  table.add({.name = "problem",
             .value_name = "DIMS",
             .doc = "the workload: batch=64,context=8192; the rest by default",
             .set = [&workload, words](const std::string& value) {
               if (value.empty()) throw BadInput("--problem takes no empty value");
               words->set_problem(value);
               workload.problem = words->text();
             }});
  table.text("preset", "PRESET", workload.preset, "a model's dimensions (see: moetune kernels KERNEL)");
  declare_dimensions(table, workload, words);
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
  table.setting("cache", cache.usual);
}

void declare_cache(OptionTable& table, CacheChoice& cache) {
  declare_cache_path(table, cache);
  table.flag("no-cache", cache.none, "neither read nor store results");
}

void declare_selection(OptionTable& table, Selection& selection, const std::string& where) {
  table.text("kernel", "KERNEL", selection.kernel, where + "those of one kernel");
  table.text("hardware", "TEXT", selection.hardware, where + "those of GPUs whose name holds TEXT");
  table.flag("stale", selection.stale, "only what is stale: of other templates, another compiler or driver");
  table.word("sort", "ORDER", selection.sort, sort_orders(),
             "by key, kernel, problem, hardware, time (slowest first), speedup, age (latest first) or trials");
  table.whole("limit", selection.limit, 0, 1'000'000'000, "at most so many; 0: all");
}

void declare_serving(OptionTable& table, ServingOptions& options, const std::string& where) {
  table.whole("tp", options.tensor_parallel, 1, 1024, where + "GPUs that share the heads");
  table.whole("ep", options.expert_parallel, 1, 512, where + "GPUs over which the experts are spread");
  table.text("batch", "RANGE", options.batch, where + "sequences at once, 1..256 by default");
  table.text("context", "RANGE", options.context, where + "tokens of a sequence, 512..128k by default");
}

ServingShape ServingOptions::shape() const {
  const DimensionRange sequences = as_field("batch", [&] { return parse_range("batch", batch); }),
                       tokens = as_field("context", [&] { return parse_range("context", context); });
  return {.tensor_parallel = static_cast<std::int64_t>(tensor_parallel),
          .expert_parallel = static_cast<std::int64_t>(expert_parallel),
          .batch_low = sequences.first,
          .batch_high = sequences.last,
          .context_low = tokens.first,
          .context_high = tokens.last};
}

void require_kernel(const JobTarget& target) {
  if (target.workload.kernel || target.device.starts_with("replay:")) return;
  throw BadInput("which KERNEL? `moetune kernels` lists them");
}

void declare_threads(OptionTable& table, std::uint64_t& threads) {
  table.whole("threads", threads, 0, 1024, "compiler processes, at most 16: more count as 16; 0: one a core");
}

namespace {

std::vector<std::string> timing_names() { return gathered<std::string>(kTimings, timing_name); }

}  // namespace

void declare_timing(OptionTable& table, std::string& timing, const std::string& otherwise) {
  table.text("timing", "TIMING", timing,
             "chained (behind a kernel that writes the fresh inputs), overlapped or alone (" + otherwise + ")");
  table.choices("timing", timing_names());
}

Timing read_timing(const std::string& text, Timing otherwise) {
  if (text.empty()) return otherwise;
  if (const std::optional<Timing> timing = timing_from_name(text)) return *timing;
  throw BadField("timing", unknown_name("timing", text, timing_names()));
}

}  // namespace moetune
