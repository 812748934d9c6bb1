#include <charconv>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/text.h"
#include "jobs/record_rules.h"
#include "jobs/stored_results.h"

namespace moetune {
namespace {

class CacheCommand : public Command {
 public:
  std::string_view name() const override { return "cache"; }
  std::string_view summary() const override { return "look into the cache: ls, show KEY, check"; }
  std::string_view details() const override {
    return "  ls        workloads and winners, with their keys\n"
           "  show KEY  one workload in full: configuration, launch plan, provenance\n"
           "  check     pages, tables, references, digests, and every trial and winner; exit code 3 where "
           "any is damaged;\n"
           "            what was tuned with other sources and is not known any more is named, and is sound\n";
  }
  void declare(OptionTable& table) override {
    table.positional("ACTION", action_, true, "ls, show or check");
    table.positional("KEY", key_, false, "for show: a workload's key, as ls prints it");
    declare_cache_path(table, cache_);
  }
  int run(Output& output, std::stop_token) override;

 private:
  int list(const Cache& cache, Output& output) const;
  int show(const Cache& cache, Output& output) const;
  int check(const Cache& cache, Output& output) const;
  Workload find_workload(const Cache& cache) const;
  int nothing_yet(Output& output) const;

  std::string action_, key_;
  CacheChoice cache_;
};

std::string state_text(const StoredResult& result) {
  if (!result.damage.empty()) return "damaged";
  if (is_recording(result.workload.key)) return "(a recording's trials)";
  return result.winner ? result.winner->stored_at : "-";
}

int CacheCommand::list(const Cache& cache, Output& output) const {
  Table table({"key", "kernel", "problem", "hardware", "compiler", "trials", "best", "winner stored"},
              {0, 5, 6});
  Document workloads = Document::array();
  StoredSpaces spaces;
  for (const Workload& workload : cache.workloads()) {
    const StoredResult r = read_result(cache, workload, spaces);
    const WorkloadKey& key = workload.key;
    if (!r.damage.empty()) output.note(r.damage);
    table.add({std::to_string(workload.id), key.kernel, key.problem.empty() ? "-" : key.problem,
               key.hardware.name + (key.hardware.origin == "gpu" ? "" : " (recorded)"),
               key.toolchain.empty() ? "-" : key.toolchain, std::to_string(r.trials), time_text(r.best_us),
               state_text(r)});
    workloads.push_back(result_document(r));
  }
  const Cache::Summary summary = cache.summary();
  output.result() << table.text()
                  << format("\n%lld trials, %lld winners, %lld builds (%s) in %s (%s)\n",
                            static_cast<long long>(summary.trials), static_cast<long long>(summary.winners),
                            static_cast<long long>(summary.builds),
                            bytes_text(static_cast<double>(summary.build_bytes)).c_str(),
                            cache.path().c_str(),
                            bytes_text(static_cast<double>(summary.file_bytes)).c_str());
  output.document({{"cache", cache.path().string()},
                   {"schema_version", summary.schema_version},
                   {"file_bytes", summary.file_bytes},
                   {"build_bytes", summary.build_bytes},
                   {"trials", summary.trials},
                   {"winners", summary.winners},
                   {"builds", summary.builds},
                   {"workloads", workloads}});
  return kDone;
}

Workload CacheCommand::find_workload(const Cache& cache) const {
  std::int64_t id = 0;
  const auto [end, error] = std::from_chars(key_.data(), key_.data() + key_.size(), id);
  const bool number = error == std::errc() && end == key_.data() + key_.size();
  for (const Workload& workload : cache.workloads()) {
    if (number && workload.id == id) return workload;
  }
  throw BadInput("no workload has the key '" + key_ + "'; `moetune cache ls` prints them");
}

int CacheCommand::show(const Cache& cache, Output& output) const {
  StoredSpaces spaces;
  const StoredResult r = read_result(cache, find_workload(cache), spaces);
  if (!r.damage.empty()) throw DamagedWinner(r.damage);
  const WorkloadKey& key = r.workload.key;
  Table table({});
  table.add({"kernel", key.kernel});
  table.add({"problem", key.problem});
  table.add({"hardware", key.hardware.text()});
  table.add({"sources", key.source_digest});
  table.add({"compiler", key.toolchain});
  table.add({"trials", std::to_string(r.trials)});
  table.add({r.winner ? "winner" : "best trial", r.best_config.empty() ? "(none)" : r.best_config});
  table.add({"time", time_text(r.best_us)});
  if (r.default_us > 0) {
    table.add({"default", time_text(r.default_us) + format("  (the best is %.2f× as fast)", r.speedup())});
  }
  Document document = result_document(r);
  if (r.winner) {
    table.add(
        {"interval", time_text(r.winner->interval_low_us) + " to " + time_text(r.winner->interval_high_us)});
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
  output.result() << table.text();
  output.document(document);
  return kDone;
}

int CacheCommand::check(const Cache& cache, Output& output) const {
  const std::vector<CacheProblem> problems = cache.check(record_rules());
  std::vector<CacheProblem> outdated;
  if (problems.empty()) outdated = outdated_workloads(cache);
  const auto told = [&](const std::vector<CacheProblem>& all) {
    Document list = Document::array();
    for (const auto& [where, what] : all) {
      output.result() << where << ": " << what << "\n";
      list.push_back({{"where", where}, {"what", what}});
    }
    return list;
  };
  Document document = {{"cache", cache.path().string()}, {"sound", problems.empty()}};
  document["problems"] = told(problems);
  document["outdated"] = problems.empty() ? told(outdated) : Document(nullptr);  // null: not looked at
  if (problems.empty()) output.result() << cache.path().string() << " is sound.\n";
  output.document(document);
  return problems.empty() ? kDone : kBrokenEnvironment;
}

int CacheCommand::nothing_yet(Output& output) const {
  output.result() << "There is no cache yet at " << cache_.file().string()
                  << ".\nStart with: moetune search decode_attention --budget 200\n";
  output.document({{"cache", cache_.file().string()}, {"exists", false}, {"workloads", Document::array()}});
  return kDone;
}

int CacheCommand::run(Output& output, std::stop_token) {
  if (action_ != "ls" && action_ != "show" && action_ != "check") {
    throw BadInput(unknown_name("action", action_, {"ls", "show", "check"}));
  }
  if (action_ != "show" && !key_.empty()) throw BadInput("unexpected word '" + key_ + "' after " + action_);
  if (action_ == "show" && key_.empty()) throw BadInput("which KEY? `moetune cache ls` prints them");
  const std::unique_ptr<Cache> cache =
      open_named_cache(cache_, action_ == "check" ? Cache::Mode::inspect : Cache::Mode::read_only);
  if (cache == nullptr) return nothing_yet(output);
  if (action_ == "show") return show(*cache, output);
  return action_ == "ls" ? list(*cache, output) : check(*cache, output);
}

}  // namespace

std::unique_ptr<Command> make_cache_command() { return std::make_unique<CacheCommand>(); }

}  // namespace moetune
