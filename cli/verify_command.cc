#include "cli/gpu_command.h"
#include "cli/text.h"

namespace moetune {
namespace {

class VerifyCommand : public GpuCommand {
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
  std::uint64_t seeds_ = 3;
  double trial_time_s_ = MeasurePolicy{}.time_limit_s;
};

void VerifyCommand::declare(OptionTable& table) {
  declare_common(table, "tile=64,stages=3,...: this instead; the rest by default",
                 "of the first of the inputs");
  table.whole("seeds", seeds_, 1, 1000, "fresh inputs to check on");
  table.seconds("trial-time", trial_time_s_,
                "time limit of one check on the GPU (10); a sanitizer needs more");
}

Document check_document(std::uint64_t seed, const TrialResult& result) {
  return {{"seed", seed},
          {"outcome", outcome_name(result.outcome)},
          {"max_error", result.max_error},
          {"dissimilarity", result.dissimilarity},
          {"message", result.message}};
}

std::string allowed_text(const Buffer& output) {
  switch (output.check.kind) {
    case OutputCheck::Kind::exact:
      return output.name + ": equal to the reference\n";
    case OutputCheck::Kind::set_per_segment:
      return output.name + ": the reference's values in each segment, in any order\n";
    case OutputCheck::Kind::tolerance:
      break;
  }
  const Tolerance& tolerance = output.check.tolerance;
  return output.name +
         format(": dissimilarity %.3g; max error %.3g of the low-precision baseline's, plus %.3g\n",
                tolerance.dissimilarity, tolerance.baseline_factor, tolerance.absolute_floor);
}

Document allowed_document(const Buffer& output) {
  switch (output.check.kind) {
    case OutputCheck::Kind::exact:
      return {{"name", output.name}, {"check", "exact"}};
    case OutputCheck::Kind::set_per_segment:
      return {{"name", output.name}, {"check", "set_per_segment"}};
    case OutputCheck::Kind::tolerance:
      break;
  }
  const Tolerance& tolerance = output.check.tolerance;
  return {{"name", output.name},
          {"check", "tolerance"},
          {"dissimilarity", tolerance.dissimilarity},
          {"baseline_factor", tolerance.baseline_factor},
          {"absolute_floor", tolerance.absolute_floor}};
}

struct Check {
  std::uint64_t seed;
  TrialResult result;
};

// Fewer than `count` where a stop request came first.
std::vector<Check> check_on_seeds(Session& session, const Candidate& candidate, std::uint64_t first,
                                  std::uint64_t count, double time_limit_s) {
  std::vector<Check> checks;
  try {
    session.device().open(*session.kernel(), session.problem(), first);
    for (std::uint64_t seed = first; seed < first + count; ++seed)
      checks.push_back({seed, session.device().verify(candidate, seed, time_limit_s)});
  } catch (const Stopped&) {
  }
  return checks;
}

int VerifyCommand::run(Output& output, std::stop_token stop) {
  Session session = open(output, stop);
  const bool stored = !config().has_value();
  const Candidate candidate =
      stored ? stored_candidate(session, output) : session.compile(session.parse_config(*config()));
  std::string allowed;
  Document outputs = Document::array();
  for (const Buffer& buffer : session.kernel()->buffers(session.problem(), seed())) {
    if (!buffer.is_written()) continue;
    allowed += "allowed in " + allowed_text(buffer);
    outputs.push_back(allowed_document(buffer));
  }

  Table table({"seed", "outcome", "max error", "dissimilarity", ""}, {0, 2, 3});
  Document checks = Document::array();
  bool right = true;
  for (const auto& [input_seed, result] : check_on_seeds(session, candidate, seed(), seeds_, trial_time_s_)) {
    right = right && result.outcome == Outcome::ok;
    table.add({std::to_string(input_seed), std::string(outcome_name(result.outcome)),
               format("%.3g", result.max_error), format("%.3g", result.dissimilarity), result.message});
    checks.push_back(check_document(input_seed, result));
  }
  const bool interrupted = checks.size() < seeds_;
  right = right && !checks.empty();
  output.result() << session.kernel_name() << " " << session.problem().text() << "\n"
                  << candidate.config.text() << "\n"
                  << "  its cubin is " << cubin_source(candidate, stored) << "; " << programs_text(session)
                  << table.text("  ") << allowed
                  << (checks.empty() ? "nothing was checked\n"
                      : right        ? "right\n"
                                     : "WRONG\n");
  if (interrupted) output.note(format("Interrupted after %zu of %zu checks.", checks.size(), seeds_));
  Document document = workload_document(session);
  document["config"] = candidate.config.text();
  document["stored"] = stored;
  document["cubin"] = cubin_source(candidate, stored);
  document["programs_compiled"] = session.programs_compiled();
  document["outputs"] = outputs;
  document["checks"] = checks;
  document["interrupted"] = interrupted;
  document["right"] = right;
  output.document(document);
  return right ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace moetune
