#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/text.h"
#include "jobs/stored_results.h"
#include "kernels/registry.h"
#include "replay/shipped.h"

namespace moetune {
namespace {

class ReportCommand : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override { return "show the best of every tuned workload"; }
  std::string_view details() const override {
    return "A time with * is a trial's: nothing was compiled for it, or its search did not end, so there is "
           "no cubin to\n"
           "run. A time with ! is contended: somebody else used the GPU meanwhile; the next search measures again.\n";
  }
  void declare(OptionTable& table) override {
    table.positional("KERNEL", kernel_, false, "this kernel's workloads only");
    declare_cache_path(table, cache_);
  }
  int run(Output& output, std::stop_token) override;

 private:
  std::optional<std::string> kernel_;
  CacheChoice cache_;
};

std::string stored_outcomes(const StoredResult& result) {
  std::string text = std::to_string(result.trials);
  std::string parts;
  for (const auto& [outcome, count] : result.outcomes) {
    parts += (parts.empty() ? "" : ", ") + std::to_string(count) + " " + outcome;
  }
  return parts.empty() ? text : text + " (" + parts + ")";
}

std::string hardware_text(const HardwareKey& hardware) {
  return hardware.name + (hardware.origin == "gpu" ? "" : " (recorded)");
}

std::string date_text(const StoredResult& result) {
  if (!result.damage.empty()) return "damaged";
  return result.winner ? result.winner->stored_at.substr(0, 10) : "-";
}

// A kernel is one that moetune has, or one whose recording was searched.
void require_known(const std::string& kernel, const std::vector<Workload>& workloads) {
  std::set<std::string> names;
  for (const Kernel* known : all_kernels()) names.insert(known->name());
  for (const Workload& workload : workloads) names.insert(workload.key.kernel);
  if (!names.contains(kernel)) throw BadInput(unknown_name("kernel", kernel, {names.begin(), names.end()}));
}

bool has_recording(const std::string& kernel) {
  const std::vector<ShippedRecording> all = list_shipped_recordings();
  return std::any_of(all.begin(), all.end(),
                     [&](const ShippedRecording& one) { return one.header.kernel == kernel; });
}

std::vector<StoredResult> read_results(const Cache* cache, const std::optional<std::string>& kernel) {
  const std::vector<Workload> workloads = cache != nullptr ? cache->workloads() : std::vector<Workload>();
  if (kernel) require_known(*kernel, workloads);
  std::vector<StoredResult> results;
  StoredSpaces spaces;
  for (const Workload& workload : workloads) {
    if (is_recording(workload.key) || (kernel && workload.key.kernel != *kernel)) continue;
    StoredResult result = read_result(*cache, workload, spaces);
    if (result.best_us > 0 || result.trials > 0 || !result.damage.empty())
      results.push_back(std::move(result));
  }
  return results;
}

void print(const std::vector<StoredResult>& results, const Output& output) {
  std::ostream& out = output.result();
  Table table({"kernel", "problem", "best", "default", "speed-up", "rate", "roofline", "hardware", "date"},
              {2, 3, 4, 5, 6});
  for (const StoredResult& r : results) {
    const WorkloadKey& key = r.workload.key;
    table.add({key.kernel, shown_problem(key.kernel, key.problem, output),
               time_text(r.best_us) + (r.winner || r.best_us == 0 ? "" : "*") + (r.contended ? "!" : ""),
               time_text(r.default_us), r.speedup() > 0 ? format("%.2f×", r.speedup()) : "-",
               rate_text(r.rate()), percent_text(r.roofline), hardware_text(key.hardware), date_text(r)});
  }
  out << table.text("", output.columns()) << "\n";
  for (const StoredResult& r : results) {
    const WorkloadKey& key = r.workload.key;
    out << key.kernel << "\n";
    Table lines({});
    if (!key.problem.empty()) lines.add({"problem", key.problem});
    if (!r.best_config.empty()) lines.add({"config", r.best_config});
    if (!r.bound.empty()) lines.add({"bound by", r.bound});
    if (r.contended)
      lines.add({"contended", "measured while somebody else used the GPU; search again when it is quiet"});
    lines.add({"trials", stored_outcomes(r)});
    out << lines.text("  ", output.columns());
  }
}

int ReportCommand::run(Output& output, std::stop_token) {
  const std::unique_ptr<Cache> cache = open_named_cache(cache_);
  const std::string path = cache != nullptr ? cache->path().string() : cache_.file().string();
  const std::vector<StoredResult> results = read_results(cache.get(), kernel_);
  if (results.empty()) {
    output.result() << (kernel_ ? "Nothing of " + *kernel_ : "Nothing") << " is tuned yet in " << path
                    << ".\nStart with: moetune search " << kernel_.value_or("decode_attention")
                    << " --budget 200\n";
    if (kernel_ && !has_recording(*kernel_)) {
      output.result() << "That needs a GPU. Without one `moetune compile " << *kernel_
                      << "` compiles it, and\n"
                      << "`moetune search decode_attention` replays a recording.\n";
    }
  } else {
    print(results, output);
  }
  for (const StoredResult& result : results) {
    if (!result.damage.empty()) output.note(result.damage);
  }
  Document document = {{"cache", path}, {"workloads", Document::array()}};
  for (const StoredResult& result : results) document["workloads"].push_back(result_document(result));
  output.document(document);
  return kDone;
}

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace moetune
