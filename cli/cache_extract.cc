// `moetune cache extract` and `rm`: one workload, out of the cache; `rm` of a range table, too.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/stored/stored_results.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

// A folder that is there may hold what somebody needs.
void make_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::create_directories(folder, error)) return;
  throw BadInput(folder.string() + ": " + (error ? error.message() : "it is there already; name a new folder"));
}

void write_whole(const fs::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw BrokenEnvironment(file.string() + ": " + std::strerror(errno));
}

}  // namespace

int extract_from_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  StoredSpaces spaces;
  const StoredResult result = read_result(cache, find_workload(cache, arguments.operand), spaces);
  if (!result.damage.empty()) throw DamagedWinner(result.damage);
  // The result above is read without cubins.
  const std::optional<WinnerRecord> winner = cache.winners.find(result.workload.id);
  if (!winner || winner->cubin.empty()) {
    throw BadInput("workload " + arguments.operand +
                   " has no compiled winner: its search did not end, or compiled nothing");
  }
  if (winner->contended) output.warn("This winner was measured while somebody else used the GPU; search again.");
  const fs::path folder = arguments.words.front();
  make_folder(folder);
  write_whole(folder / "winner.cubin", {reinterpret_cast<const char*>(winner->cubin.data()), winner->cubin.size()});
  write_whole(folder / "plan.json", parse_stored(winner->plan).dump(2) + "\n");
  Document key = result_document(result);
  key["provenance"] = parse_stored(winner->provenance);
  write_whole(folder / "key.json", key.dump(2) + "\n");
  output.result() << folder.string() << ": winner.cubin (" << bytes_text(static_cast<double>(winner->cubin.size()))
                  << "), plan.json and key.json of " << result.workload.key.kernel << "\n";
  output.document({{"folder", folder.string()}, {"cubin_bytes", winner->cubin.size()}, {"key", key}});
  return kDone;
}

int remove_from_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  if (const std::optional<std::int64_t> range = range_table_id(arguments.operand)) {
    if (!cache.ranges.forget(*range)) throw_no_range_table(arguments.operand);
    output.result() << "Removed the range table " << arguments.operand << "; the winners of its cells stay.\n";
    output.document({{"removed", {{"key", arguments.operand}}}});
    return kDone;
  }
  StoredSpaces spaces;
  const StoredResult result = read_result(cache, find_workload(cache, arguments.operand), spaces);
  cache.workloads.forget(result.workload.id);
  const WorkloadKey& key = result.workload.key;
  output.result() << "Removed " << key.kernel << (key.problem.empty() ? "" : " " + key.problem) << " on "
                  << key.hardware.name << ": " << counted_text(static_cast<std::int64_t>(result.trials), "trial")
                  << (result.winner ? " and the winner" : "") << ".\n";
  output.document({{"removed", result_document(result)}});
  return kDone;
}

}  // namespace moetune
