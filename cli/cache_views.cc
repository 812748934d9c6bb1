#include <charconv>

#include "base/error.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/text.h"
#include "jobs/record_rules.h"
#include "jobs/stored_results.h"

namespace moetune {
namespace {

std::string state_text(const StoredResult& result) {
  if (!result.damage.empty()) return "damaged";
  if (is_recording(result.workload.key)) return "(a recording's trials)";
  const std::string stored = result.winner ? result.winner->stored_at : "-";
  return stored + (result.contended ? " (contended)" : "");
}

}  // namespace

int list_cache(const CacheArguments&, Cache& cache, Output& output) {
  Table table({"key", "kernel", "problem", "hardware", "compiler", "trials", "best", "winner stored"},
              {0, 5, 6});
  Document workloads = Document::array();
  StoredSpaces spaces;
  for (const Workload& workload : cache.workloads()) {
    const StoredResult r = read_result(cache, workload, spaces);
    const WorkloadKey& key = workload.key;
    if (!r.damage.empty()) output.note(r.damage);
    table.add({std::to_string(workload.id), key.kernel, shown_problem(key.kernel, key.problem, output),
               key.hardware.name + (key.hardware.origin == "gpu" ? "" : " (recorded)"),
               key.toolchain.empty() ? "-" : key.toolchain, std::to_string(r.trials), time_text(r.best_us),
               state_text(r)});
    workloads.push_back(result_document(r));
  }
  Table tables({"key", "kernel", "family", "hardware", "compiler", "timing", "cubins", "table stored"}, {6});
  Document ranges = Document::array();
  for (const FamilyRange& range : cache.ranges()) {
    const RangeKey& key = range.key;
    const std::string name = "table:" + std::to_string(range.id);
    tables.add({name, key.kernel, key.family,
                key.hardware.name + (key.hardware.origin == "gpu" ? "" : " (recorded)"), key.toolchain,
                std::string(timing_name(key.timing)), std::to_string(range.variants.size()),
                range.stored_at});
    ranges.push_back({{"key", name},
                      {"kernel", key.kernel},
                      {"family", key.family},
                      {"hardware", key.hardware.name},
                      {"toolchain", key.toolchain},
                      {"timing", timing_name(key.timing)},
                      {"cubins", range.variants.size()},
                      {"stored_at", range.stored_at},
                      {"provenance", parse_stored(range.provenance)}});
  }
  for (const DamagedRange& one : cache.damaged_ranges())
    output.note(place_of(one.range) + " is left out: " + one.what);
  const Cache::Summary summary = cache.summary();
  const std::vector<Duel> duels = cache.duels();
  output.result() << table.text("", output.columns());
  if (!ranges.empty()) output.result() << "\n" << tables.text("", output.columns());
  output.result() << format(
      "\n%s, %s, %s (%s) in %s (%s)\n", counted_text(summary.trials, "trial").c_str(),
      counted_text(summary.winners, "winner").c_str(), counted_text(summary.builds, "build").c_str(),
      bytes_text(static_cast<double>(summary.build_bytes)).c_str(), cache.path().c_str(),
      bytes_text(static_cast<double>(summary.file_bytes)).c_str());
  if (!duels.empty()) {
    output.note(counted_text(static_cast<std::int64_t>(duels.size()), "pair") +
                " of winner and rival wait for a duel; cache show KEY names them");
  }
  output.document({{"cache", cache.path().string()},
                   {"schema_version", summary.schema_version},
                   {"file_bytes", summary.file_bytes},
                   {"build_bytes", summary.build_bytes},
                   {"trials", summary.trials},
                   {"winners", summary.winners},
                   {"builds", summary.builds},
                   {"workloads", workloads},
                   {"ranges", ranges},
                   {"duels", duels_document(duels)}});
  return kDone;
}

Workload find_workload(const Cache& cache, const std::string& written) {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), id);
  const bool number = error == std::errc() && end == written.data() + written.size();
  for (const Workload& workload : cache.workloads()) {
    if (number && workload.id == id) return workload;
  }
  if (written.starts_with("table:"))
    throw BadInput("'" + written + "' is a range table; of those only history and rollback take the key");
  throw BadInput("no workload has the key '" + written + "'; `moetune cache ls` prints them");
}

int show_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  StoredSpaces spaces;
  const StoredResult r =
      read_result(cache, find_workload(cache, arguments.operand), spaces, WinnerParts::all);
  if (!r.damage.empty()) throw DamagedWinner(r.damage);
  const WorkloadKey& key = r.workload.key;
  Table table({});
  table.add({"kernel", key.kernel});
  table.add({"problem", key.problem});
  table.add({"hardware", key.hardware.text()});
  table.add({"sources", key.source_digest});
  table.add({"compiler", key.toolchain});
  table.add({"timing", std::string(timing_name(key.timing))});
  table.add({"trials", std::to_string(r.trials)});
  table.add({r.winner ? "winner" : "best trial", r.best_config.empty() ? "(none)" : r.best_config});
  table.add(
      {"time", time_text(r.best_us) + (r.contended ? "  (contended: somebody else used the GPU)" : "")});
  if (r.default_us > 0) {
    table.add({"default", time_text(r.default_us) + format("  (the best is %.2f× as fast)", r.speedup())});
  }
  Document document = result_document(r);
  if (r.winner) {
    table.add(
        {"interval", time_text(r.winner->interval_low_us) + " to " + time_text(r.winner->interval_high_us)});
    if (const std::vector<TimingResult> timings = parse_timings(r.winner->timings); !timings.empty())
      table.add({"timings", timings_line(timings, r.best_config)});
    table.add({"cubin", bytes_text(static_cast<double>(r.winner->cubin.size()))});
    table.add({"stored", r.winner->stored_at});
    table.add({"provenance", r.winner->provenance});
    table.add({"plan", r.winner->plan});
    document["interval_us"] = {number_or_null(r.winner->interval_low_us),
                               number_or_null(r.winner->interval_high_us)};
    document["cubin_bytes"] = r.winner->cubin.size();
    document["provenance"] = parse_stored(r.winner->provenance);
    document["plan"] = parse_stored(r.winner->plan);
  }
  std::vector<Duel> duels = cache.duels();
  std::erase_if(duels, [&](const Duel& duel) { return duel.workload.id != r.workload.id; });
  for (const Duel& duel : duels) {
    table.add({"rival", format("%s to %s, waits for a duel: %s", time_text(duel.rival_low_us).c_str(),
                               time_text(duel.rival_high_us).c_str(), duel.rival_config.c_str())});
  }
  document["duels"] = duels_document(duels);
  output.result() << table.text("", output.columns());
  output.document(document);
  return kDone;
}

int check_cache(const CacheArguments&, Cache& cache, Output& output) {
  const std::vector<CacheProblem> problems = cache.check(record_rules());
  std::vector<CacheProblem> outdated;
  if (problems.empty()) outdated = outdated_workloads(cache);
  const auto listed = [&](const std::vector<CacheProblem>& all) {
    Document list = Document::array();
    for (const auto& [where, what] : all) {
      output.result() << where << ": " << what << "\n";
      list.push_back({{"where", where}, {"what", what}});
    }
    return list;
  };
  Document document = {{"cache", cache.path().string()}, {"sound", problems.empty()}};
  document["problems"] = listed(problems);
  document["outdated"] = problems.empty() ? listed(outdated) : Document(nullptr);  // null: not looked at
  document["lacks_log"] = cache.lacks_log();
  if (problems.empty()) output.result() << cache.path().string() << " is sound.\n";
  if (cache.lacks_log())
    output.result()
        << "But " << cache.path().string()
        << " was copied while a search wrote to the cache, or has lost its -wal: results of the "
           "search's last seconds may be missing. To copy a cache use cache export or cache merge.\n";
  output.document(document);
  return problems.empty() ? kDone : kBrokenEnvironment;
}

}  // namespace moetune
