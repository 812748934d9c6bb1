#include "base/error.h"
#include "cli/command.h"
#include "cli/document.h"
#include "cli/session.h"
#include "cli/stored_results.h"
#include "cli/text.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

class VerifyCommand : public Command {
 public:
  std::string_view name() const override { return "verify"; }
  std::string_view summary() const override {
    return "check a stored winner, or a configuration, against the reference";
  }
  std::string_view details() const override {
    return "The stored winner's cubin is loaded as it is, never compiled again; --config is compiled. Exit "
           "code 1\n"
           "where the output is wrong on any seed.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  WorkloadOptions workload_;
  std::string device_ = "auto";
  std::optional<std::string> config_;
  CacheChoice cache_;
  CompileOptions compile_;
  std::uint64_t seed_ = 1, seeds_ = 3;
};

void VerifyCommand::declare(OptionTable& table) {
  declare_workload(table, workload_, true);
  table.text("config", "CONFIG", config_, "tile=64,stages=3,...: this instead; the rest by default");
  table.whole("seeds", seeds_, 1, 1000, "fresh inputs to check on");
  table.whole("seed", seed_, 0, 1'000'000'000, "the first of them");
  declare_device(table, device_);
  declare_cache(table, cache_);
}

Document check_document(std::uint64_t seed, const TrialResult& result) {
  return {{"seed", seed},
          {"outcome", outcome_name(result.outcome)},
          {"max_error", result.max_error},
          {"dissimilarity", result.dissimilarity},
          {"message", result.message}};
}

int VerifyCommand::run(Output& output, std::stop_token stop) {
  Session session(choose_gpu(device_, workload_, name()), cache_, compile_, output);
  const Candidate candidate =
      config_ ? session.compile(session.parse_config(*config_)) : stored_candidate(session, output);
  const Tolerance tolerance = session.kernel()->tolerance(session.problem());
  session.device().open(*session.kernel(), session.problem(), seed_);

  Table table({"seed", "outcome", "max error", "dissimilarity", ""}, {0, 2, 3});
  Document checks = Document::array();
  bool right = true;
  for (std::uint64_t seed = seed_; seed < seed_ + seeds_ && !stop.stop_requested(); ++seed) {
    const TrialResult result = session.device().verify(candidate, seed);
    right = right && result.outcome == Outcome::ok;
    table.add({std::to_string(seed), std::string(outcome_name(result.outcome)),
               format("%.3g", result.max_error), format("%.3g", result.dissimilarity), result.message});
    checks.push_back(check_document(seed, result));
  }
  const bool interrupted = checks.size() < seeds_;
  right = right && !checks.empty();
  output.result()
      << session.kernel_name() << " " << session.problem().text() << "\n"
      << candidate.config.text() << "\n"
      << table.text("  ")
      << format("allowed: dissimilarity %.3g; max error %.3g of the low-precision baseline's, plus %.3g\n",
                tolerance.dissimilarity, tolerance.baseline_factor, tolerance.absolute_floor)
      << (checks.empty() ? "nothing was checked\n"
          : right        ? "right\n"
                         : "WRONG\n");
  if (interrupted) output.note(format("Interrupted after %zu of %zu checks.", checks.size(), seeds_));
  output.document({{"kernel", session.kernel_name()},
                   {"problem", session.problem().text()},
                   {"device", device_document(session.info())},
                   {"config", candidate.config.text()},
                   {"stored", !config_.has_value()},
                   {"tolerance",
                    {{"dissimilarity", tolerance.dissimilarity},
                     {"baseline_factor", tolerance.baseline_factor},
                     {"absolute_floor", tolerance.absolute_floor}}},
                   {"checks", checks},
                   {"interrupted", interrupted},
                   {"right", right}});
  return right ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace moetune
