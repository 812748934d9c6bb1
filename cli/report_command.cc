#include "base/error.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/stored_results.h"
#include "cli/text.h"

namespace moetune {
namespace {

class ReportCommand : public Command {
 public:
  std::string_view name() const override { return "report"; }
  std::string_view summary() const override { return "show the best of every tuned workload"; }
  std::string_view details() const override {
    return "A time with * is a trial's: nothing was compiled for it, so there is no cubin to run.\n";
  }
  void declare(OptionTable& table) override {
    table.positional("KERNEL", kernel_, false, "this kernel's workloads only");
    declare_cache_path(table, cache_);
  }
  int run(Output& output, std::stop_token) override;

 private:
  std::string kernel_;
  CacheChoice cache_;
};

std::string outcomes_text(const StoredResult& result) {
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

std::vector<StoredResult> read_results(const Cache& cache, const std::string& kernel) {
  std::vector<StoredResult> results;
  std::vector<std::string> names;
  for (const Workload& workload : cache.workloads()) {
    if (is_recording(workload.key)) continue;
    names.push_back(workload.key.kernel);
    if (!kernel.empty() && workload.key.kernel != kernel) continue;
    StoredResult result = read_result(cache, workload);
    if (result.best_us > 0 || result.trials > 0 || !result.damage.empty())
      results.push_back(std::move(result));
  }
  if (results.empty() && !kernel.empty() && !names.empty()) {
    throw BadInput(unknown_name("tuned kernel", kernel, names));
  }
  return results;
}

void print(const std::vector<StoredResult>& results, std::ostream& out) {
  Table table({"kernel", "problem", "best", "default", "speed-up", "TB/s", "roofline", "hardware", "date"},
              {2, 3, 4, 5, 6});
  for (const StoredResult& r : results) {
    const WorkloadKey& key = r.workload.key;
    table.add({key.kernel, key.problem.empty() ? "-" : key.problem,
               time_text(r.best_us) + (r.winner || r.best_us == 0 ? "" : "*"), time_text(r.default_us),
               r.speedup() > 0 ? format("%.2f×", r.speedup()) : "-",
               r.tb_s() > 0 ? format("%.2f", r.tb_s()) : "-", percent_text(r.roofline),
               hardware_text(key.hardware), date_text(r)});
  }
  out << table.text() << "\n";
  for (const StoredResult& r : results) {
    const WorkloadKey& key = r.workload.key;
    out << key.kernel << (key.problem.empty() ? "" : " " + key.problem) << "\n";
    if (!r.best_config.empty()) out << "  config  " << r.best_config << "\n";
    out << "  trials  " << outcomes_text(r) << "\n";
  }
}

int ReportCommand::run(Output& output, std::stop_token) {
  const std::unique_ptr<Cache> cache = open_existing_cache(cache_);
  std::vector<StoredResult> results;
  if (cache != nullptr) results = read_results(*cache, kernel_);
  if (results.empty()) {
    output.result() << "Nothing is tuned yet in " << cache_.file().string()
                    << ".\nStart with: moetune search decode_attention --budget 200\n";
  } else {
    print(results, output.result());
  }
  for (const StoredResult& result : results) {
    if (!result.damage.empty()) output.note(result.damage);
  }
  Document document = {{"cache", cache_.file().string()}, {"workloads", Document::array()}};
  for (const StoredResult& result : results) document["workloads"].push_back(result_document(result));
  output.document(document);
  return kDone;
}

}  // namespace

std::unique_ptr<Command> make_report_command() { return std::make_unique<ReportCommand>(); }

}  // namespace moetune
