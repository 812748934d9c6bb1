#include <charconv>
#include <set>

#include "base/error.h"
#include "cache/check.h"
#include "cli/cache_actions.h"
#include "cli/command.h"
#include "cli/pager.h"
#include "cli/search_text.h"
#include "cli/text.h"
#include "jobs/session/record_rules.h"
#include "jobs/stored/stored_results.h"
#include "report/staleness.h"
#include "staleness/ledger.h"

namespace moetune {
namespace {

std::string state_text(const WorkloadReport& one) {
  if (!one.stored.damage.empty()) return "damaged";
  if (is_recording(one.key())) return "(a recording's trials)";
  return (one.stored.winner ? one.stored_at : "-") + (one.stored.contended          ? " (contended)"
                                                      : one.stored.is_provisional() ? " (provisional)"
                                                                                    : "");
}

std::string hardware_text(const HardwareKey& hardware) {
  return hardware.name + (hardware.origin == "gpu" ? "" : " (recorded)");
}

std::string joined_phrases(const std::vector<std::string>& phrases) {
  std::string text;
  for (const std::string& phrase : phrases) text += (text.empty() ? "" : "; ") + phrase;
  return text.empty() ? "-" : text;
}

// The workloads that `cache ls` shows; `all` counts those of the whole cache.
struct Listed {
  std::vector<WorkloadReport> workloads;
  std::vector<FamilyRange> ranges;
  std::vector<DamagedRange> damaged_ranges;
  std::size_t all = 0, all_ranges = 0;
};

// Whole records are judged for a document alone: a list believes what matches its digest if its figures can be.
Listed read_listed(const Cache& cache, const Selection& selection, bool is_whole) {
  const std::shared_ptr<const void> snapshot = cache.snapshot();
  Listed listed;
  StoredSpaces spaces;
  const std::vector<Workload> all = cache.workloads.all();
  require_known_kernel(selection.kernel, all);
  listed.all = all.size();
  listed.workloads.reserve(all.size());
  const WinnerParts parts = is_whole ? WinnerParts::without_cubins : WinnerParts::figures;
  const bool is_by_key = !selection.stale && (selection.sort.empty() || selection.sort == "key");
  for (const Workload& workload : all) {
    if (!selection.stale && !is_selected(selection, workload.key.kernel, workload.key.hardware)) continue;
    if (is_by_key && selection.limit > 0 && listed.workloads.size() == selection.limit) break;
    listed.workloads.push_back(selection.stale ? read_workload(cache, workload, spaces, parts)
                                               : WorkloadReport{.stored = read_result(cache, workload, spaces, parts)});
    WorkloadReport& one = listed.workloads.back();
    if (one.stored.winner) one.stored_at = one.stored.winner->stored_at;
  }
  if (selection.stale) find_stale(listed.workloads, spaces, ledgers_beside(cache.path()));
  select(listed.workloads, selection);
  JudgedRanges ranges = is_whole ? cache.ranges.judged() : JudgedRanges{cache.ranges.read(), cache.ranges.mismatched()};
  listed.ranges = std::move(ranges.sound);
  listed.damaged_ranges = std::move(ranges.damaged);
  listed.all_ranges = listed.ranges.size();
  std::erase_if(listed.ranges, [&](const FamilyRange& range) {
    const RangeKey& key = range.key;
    return !is_selected(selection, key.kernel, key.hardware) ||
           (selection.stale &&
            spaces.is_current({key.kernel, "", key.hardware, key.source_digest, key.toolchain, key.timing}));
  });
  if (selection.limit > 0 && listed.ranges.size() > selection.limit)
    listed.ranges.erase(listed.ranges.begin() + static_cast<std::ptrdiff_t>(selection.limit), listed.ranges.end());
  return listed;
}

Table workload_table(const std::vector<WorkloadReport>& workloads, bool stale, const Output& output) {
  std::vector<std::string> header = {"key",      "kernel", "problem", "hardware",
                                     "compiler", "trials", "best",    "winner stored"};
  if (stale) header.emplace_back("stale");
  Table table(header, {0, 5, 6});
  for (const WorkloadReport& one : workloads) {
    const WorkloadKey& key = one.key();
    std::vector<std::string> row = {std::to_string(one.stored.workload.id),
                                    key.kernel,
                                    shown_problem(key.kernel, key.problem, output),
                                    hardware_text(key.hardware),
                                    key.toolchain.empty() ? "-" : key.toolchain,
                                    std::to_string(one.stored.trials),
                                    time_text(one.stored.best_us),
                                    state_text(one)};
    if (stale) row.push_back(joined_phrases(one.stale));
    table.add(std::move(row));
  }
  return table;
}

std::string range_name(const FamilyRange& range) { return "table:" + std::to_string(range.id); }

Table range_table(const std::vector<FamilyRange>& ranges, const Output& output) {
  Table table({"key", "kernel", "family", "hardware", "compiler", "timing", "cubins", "table stored"}, {6});
  for (const FamilyRange& range : ranges) {
    const RangeKey& key = range.key;
    table.add({range_name(range), key.kernel, shown_family(key.kernel, key.family, output), hardware_text(key.hardware),
               key.toolchain, std::string(timing_name(key.timing)), std::to_string(range.variants.size()),
               range.stored_at});
  }
  return table;
}

Document range_list(const std::vector<FamilyRange>& ranges) {
  Document list = Document::array();
  for (const FamilyRange& range : ranges) {
    list.push_back({{"key", range_name(range)},
                    {"kernel", range.key.kernel},
                    {"family", range.key.family},
                    {"hardware", range.key.hardware.name},
                    {"toolchain", range.key.toolchain},
                    {"timing", timing_name(range.key.timing)},
                    {"cubins", range.variants.size()},
                    {"stored_at", range.stored_at},
                    {"provenance", parse_stored(range.provenance)}});
  }
  return list;
}

// The hardware that all of them were measured on; "" if it differs.
std::string only_hardware(const Listed& listed) {
  std::set<std::string> names;
  for (const WorkloadReport& one : listed.workloads) names.insert(hardware_text(one.key().hardware));
  for (const FamilyRange& one : listed.ranges) names.insert(hardware_text(one.key.hardware));
  return names.size() == 1 ? *names.begin() : "";
}

void print_listed(const Listed& listed, const Selection& selection, const CacheSummary& summary, const Cache& cache,
                  const Output& output) {
  const Pager pager(output);
  const std::size_t columns = output.columns();
  const std::string gpu = only_hardware(listed);
  std::vector<std::string> spare = {"compiler", "trials", "timing", "winner stored", "table stored"};
  spare.insert(gpu.empty() ? spare.end() : spare.begin(), "hardware");
  Table workloads = workload_table(listed.workloads, selection.stale, output);
  workloads.give_way(spare, "", columns, Table::Keep::rows);
  Table ranges = range_table(listed.ranges, output);
  ranges.give_way(spare, "", columns, Table::Keep::rows);
  output.result() << workloads.text("", columns);
  if (!listed.ranges.empty()) output.result() << "\n" << ranges.text("", columns);
  output.result() << "\n";
  if (!selection.is_all() && (listed.workloads.size() < listed.all || listed.ranges.size() < listed.all_ranges))
    output.result() << format("%zu of %s and %zu of %s are shown\n", listed.workloads.size(),
                              counted_text(static_cast<std::int64_t>(listed.all), "workload").c_str(),
                              listed.ranges.size(),
                              counted_text(static_cast<std::int64_t>(listed.all_ranges), "table").c_str());
  const std::string held = counted_text(summary.trials, "trial") + ", " + counted_text(summary.winners, "winner") +
                           ", " + counted_text(summary.builds, "build") + " (" +
                           bytes_text(static_cast<double>(summary.build_bytes)) + ")" +
                           (gpu.empty() ? "" : " of " + gpu);
  output.result() << paragraph(
      held + " in " + cache.path().string() + " (" + bytes_text(static_cast<double>(summary.file_bytes)) + ")",
      columns);
}

}  // namespace

int list_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  Selection selection = arguments.selection;
  const bool is_capped = output.has_screen() && selection.limit == 0;
  if (is_capped) selection.limit = kMostRows;
  const Listed listed = read_listed(cache, selection, output.json());
  Document workloads = Document::array();
  for (const WorkloadReport& one : listed.workloads) {
    if (!one.stored.damage.empty()) output.warn(one.stored.damage);
    if (!output.json()) continue;
    workloads.push_back(result_document(one.stored));
    if (selection.stale) workloads.back()["stale"] = one.stale;
  }
  for (const DamagedRange& one : listed.damaged_ranges) output.note(place_of(one.range) + " is left out: " + one.what);
  const CacheSummary summary = summary_of(cache);
  print_listed(listed, selection, summary, cache, output);
  if (is_capped && (listed.all > kMostRows || listed.all_ranges > kMostRows))
    output.result() << "--limit N shows N of each, --json all\n";
  output.document({{"cache", cache.path().string()},
                   {"schema_version", summary.schema_version},
                   {"file_bytes", summary.file_bytes},
                   {"build_bytes", summary.build_bytes},
                   {"trials", summary.trials},
                   {"winners", summary.winners},
                   {"builds", summary.builds},
                   {"workloads", workloads},
                   {"ranges", range_list(listed.ranges)}});
  return kDone;
}

Workload find_workload(const Cache& cache, const std::string& written) {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), id);
  const bool number = error == std::errc() && end == written.data() + written.size();
  if (number)
    if (const std::optional<Workload> found = cache.workloads.find(id)) return *found;
  if (written.starts_with("table:"))
    throw BadInput("'" + written + "' is a range table; of those only history, rollback and rm take the key");
  throw BadInput("no workload has the key '" + written + "'; `moetune cache ls` prints them");
}

int show_cache(const CacheArguments& arguments, Cache& cache, Output& output) {
  StoredSpaces spaces;
  const StoredResult r = read_result(cache, find_workload(cache, arguments.operand), spaces, WinnerParts::all);
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
  table.add({"time", time_text(r.best_us) + (r.contended ? "  (contended: somebody else used the GPU)" : "")});
  if (r.default_us > 0) {
    table.add({"default", time_text(r.default_us) + format("  (the best is %.2f× as fast)", r.speedup())});
  }
  Document document = result_document(r);
  if (r.winner) {
    table.add({"interval", time_text(r.winner->interval_low_us) + " to " + time_text(r.winner->interval_high_us)});
    if (const std::vector<TimingResult> timings = parse_timings(r.winner->timings); !timings.empty())
      table.add({"timings", timings_line(timings_document(timings, r.best_config))});
    table.add({"cubin", bytes_text(static_cast<double>(r.winner->cubin.size()))});
    table.add({"stored", r.winner->stored_at});
    table.add({"provenance", r.winner->provenance});
    table.add({"plan", r.winner->plan});
    document["interval_us"] = {number_or_null(r.winner->interval_low_us), number_or_null(r.winner->interval_high_us)};
    document["cubin_bytes"] = r.winner->cubin.size();
    document["provenance"] = parse_stored(r.winner->provenance);
    document["plan"] = parse_stored(r.winner->plan);
  }
  output.result() << table.text("", output.columns());
  output.document(document);
  return kDone;
}

int check_cache(const CacheArguments&, Cache& cache, Output& output) {
  const std::shared_ptr<const void> snapshot = cache.snapshot();
  const std::vector<CacheProblem> problems = check_cache(cache, record_rules());
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
    output.result() << "But " << cache.path().string()
                    << " was copied while a search wrote to the cache, or has lost its -wal: results of the "
                       "search's last seconds may be missing. To copy a cache use cache export or cache merge.\n";
  output.document(document);
  return problems.empty() ? kDone : kBrokenEnvironment;
}

}  // namespace moetune
