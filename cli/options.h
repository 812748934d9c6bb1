// Options that several commands share: what declares them, bound to the fields of a job's request.
#pragma once

#include "base/as_field.h"
#include "cli/option_table.h"
#include "jobs/session/job.h"
#include "kernels/model_workloads.h"
#include "report/selection.h"

namespace moetune {

// For --quiet-wait.
inline constexpr const char* kQuietWaitDoc =
    "how long to wait in all for a GPU that somebody else uses; then times are marked contended";

// KERNEL, --problem, --preset, and each dimension of the kernels as an option: --batch 16 --context 4096.
void declare_workload(OptionTable& table, WorkloadSpec& workload, bool kernel_required);
// The option of a dimension: "kv-heads" of kv_heads.
std::string dimension_option(const std::string& dimension);
void declare_device(OptionTable& table, std::string& device);      // a GPU or a recording
void declare_gpu(OptionTable& table, std::string& device);         // for what runs kernels
void declare_cache(OptionTable& table, CacheChoice& cache);        // --cache and --no-cache
void declare_cache_path(OptionTable& table, CacheChoice& cache);   // --cache alone
void declare_threads(OptionTable& table, std::uint64_t& threads);  // of the compiler

// --timing; the text is read by read_timing().
void declare_timing(OptionTable& table, std::string& timing, const std::string& otherwise);
// `otherwise` for "". Throws BadField.
Timing read_timing(const std::string& text, Timing otherwise);

// --kernel, --hardware, --stale, --sort and --limit; `where` begins the first two's docs.
void declare_selection(OptionTable& table, Selection& selection, const std::string& where = "");

// How a model is served: --tp, --ep, --batch and --context; `where` begins their docs.
struct ServingOptions {
  std::uint64_t tensor_parallel = 1, expert_parallel = 1;
  std::string batch = "1..256", context = "512..128k";

  ServingShape shape() const;  // throws BadField
};
void declare_serving(OptionTable& table, ServingOptions& options, const std::string& where = "");

// Throws BadInput, in a user's words, if no kernel is named and no recording says which.
void require_kernel(const JobTarget& target);

}  // namespace moetune
