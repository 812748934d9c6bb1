#include "cache/gc.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/session/documents.h"
#include "jobs/stored/orphans.h"

namespace moetune {
namespace {

std::string counted(std::int64_t count, const char* noun) {
  return count_text(static_cast<double>(count)) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace

int shrink_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  constexpr double kMiB = 1 << 20;
  GcRequest request;
  request.keep_build_bytes = static_cast<std::int64_t>(arguments.keep_builds) << 20;
  if (arguments.max_size > 0) request.max_file_bytes = static_cast<std::int64_t>(arguments.max_size * kMiB);
  request.is_orphaned = orphan_rule(cache);
  request.dry_run = arguments.dry_run;
  const GcResult done = collect_garbage(cache, request);

  output.result() << (arguments.dry_run ? "would remove  " : "removed  ") << counted(done.builds, "build") << " ("
                  << bytes_text(static_cast<double>(done.build_bytes)) << "), " << counted(done.trials, "trial")
                  << " of " << counted(done.trials_from, "workload") << ", "
                  << counted(done.generations, "earlier winner") << "\n"
                  << cache.path().string() << "  " << bytes_text(static_cast<double>(done.file_bytes_before)) << " -> "
                  << (arguments.dry_run ? "about " : "") << bytes_text(static_cast<double>(done.file_bytes_after))
                  << "\n";
  if (done.busy > 0)
    output.warn(counted(done.busy, "workload") + " left alone: a search is running; try again when it has ended");
  if (request.max_file_bytes && done.file_bytes_after > *request.max_file_bytes)
    output.warn("--max-size: winners and the trials that searches need take more than that; they stay");
  output.document({{"cache", cache.path().string()},
                   {"dry_run", arguments.dry_run},
                   {"builds", done.builds},
                   {"build_bytes", done.build_bytes},
                   {"trials", done.trials},
                   {"trials_from_workloads", done.trials_from},
                   {"generations", done.generations},
                   {"busy_workloads", done.busy},
                   {"file_bytes_before", done.file_bytes_before},
                   {"file_bytes_after", done.file_bytes_after}});
  return kDone;
}

}  // namespace moetune
