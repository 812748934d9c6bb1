#include "base/error.h"
#include "cli/command.h"
#include "cli/document.h"
#include "cli/session.h"
#include "cli/stored_results.h"
#include "cli/text.h"

namespace moetune {
namespace {

class BenchCommand : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override {
    return "time the stored winner, the default and the reference together";
  }
  std::string_view details() const override {
    return "All are measured in interleaved rounds, so that drift hits them alike. The winner's stored cubin "
           "is\n"
           "loaded as it is, never compiled again.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  WorkloadOptions workload_;
  std::string device_ = "auto";
  std::optional<std::string> config_;
  CacheChoice cache_;
  CompileOptions compile_;
  std::uint64_t seed_ = 1, rounds_ = 41;
};

void BenchCommand::declare(OptionTable& table) {
  declare_workload(table, workload_, true);
  table.text("config", "CONFIG", config_, "tile=64,stages=3,...: one more to compare; the rest by default");
  table.whole("rounds", rounds_, 1, 100'000, "samples of each");
  table.whole("seed", seed_, 0, 1'000'000'000, "of the inputs");
  declare_device(table, device_);
  declare_cache(table, cache_);
}

struct Contestant {
  std::string label;
  Candidate candidate;
};

std::vector<Contestant> contestants(Session& session, const std::optional<std::string>& config,
                                    const Output& output) {
  std::vector<Contestant> all;
  all.push_back({"winner", stored_candidate(session, output)});
  if (config) all.push_back({"config", session.compile(session.parse_config(*config))});
  if (session.default_config()) all.push_back({"default", session.compile(*session.default_config())});
  // In the problem's own types, as a plain implementation would be written; the exact reference writes f32.
  all.push_back(
      {"reference", session.compile(session.kernel()->reference(Reference::baseline, session.problem(),
                                                                session.info().limits),
                                    Config{}, "the reference")});
  return all;
}

Document row_document(const Session& session, const Contestant& contestant, const TrialResult& result) {
  const double time = result.measurement.median_us;
  const bool timed = has_time(result.outcome);
  const std::optional<double> floor = session.floor_us();
  const std::string config = contestant.candidate.config.text();
  return {{"what", contestant.label},
          {"config", config.empty() ? Document(nullptr) : Document(config)},
          {"outcome", outcome_name(result.outcome)},
          {"message", result.message},
          {"time_us", timed ? number_or_null(time) : nullptr},
          {"interval_us",
           {number_or_null(result.measurement.low_us), number_or_null(result.measurement.high_us)}},
          {"tb_s", timed ? number_or_null(session.bytes() / time * 1e-6) : nullptr},
          {"roofline", timed && floor ? number_or_null(*floor / time) : nullptr}};
}

int BenchCommand::run(Output& output, std::stop_token stop) {
  Session session(choose_gpu(device_, workload_, name()), cache_, compile_, output);
  const std::vector<Contestant> all = contestants(session, config_, output);
  if (!stop.stop_requested()) session.device().open(*session.kernel(), session.problem(), seed_);
  if (stop.stop_requested()) {
    output.note("Interrupted before anything was measured.");
    output.document({{"kernel", session.kernel_name()},
                     {"problem", session.problem().text()},
                     {"device", device_document(session.info())},
                     {"rows", Document::array()},
                     {"interrupted", true}});
    return kNothingFound;
  }
  std::vector<Candidate> candidates;
  for (const Contestant& contestant : all) candidates.push_back(contestant.candidate);
  const std::vector<TrialResult> results = session.device().duel(candidates, static_cast<int>(rounds_));

  Table table({"", "time", "95% interval", "TB/s", "roofline", "vs winner", "config"}, {1, 2, 3, 4, 5});
  Document rows = Document::array();
  const std::optional<double> floor = session.floor_us();
  const double winner_us = results.front().measurement.median_us;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Measurement& m = results[i].measurement;
    rows.push_back(row_document(session, all[i], results[i]));
    if (!has_time(results[i].outcome)) {
      table.add(
          {all[i].label, std::string(outcome_name(results[i].outcome)), "", "", "", "", results[i].message});
      continue;
    }
    table.add({all[i].label, time_text(m.median_us), time_text(m.low_us) + " to " + time_text(m.high_us),
               format("%.3f", session.bytes() / m.median_us * 1e-6),
               floor ? percent_text(*floor / m.median_us) : "-",
               winner_us > 0 ? format("%.2f×", m.median_us / winner_us) : "-",
               all[i].candidate.config.text()});
  }
  output.result() << session.kernel_name() << " " << session.problem().text() << "\n" << table.text("  ");
  output.document({{"kernel", session.kernel_name()},
                   {"problem", session.problem().text()},
                   {"device", device_document(session.info())},
                   {"rows", rows},
                   {"interrupted", false}});
  return has_time(results.front().outcome) ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace moetune
