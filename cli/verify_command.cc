#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/options.h"
#include "cli/text.h"
#include "jobs/verify_job.h"

namespace moetune {
namespace {

class VerifyCommand : public Command {
 public:
  std::string_view name() const override { return "verify"; }
  std::string_view summary() const override {
    return "check what is stored and serves, or a configuration, against the reference";
  }
  std::string_view details() const override {
    return "The stored cubin is loaded as it is, never compiled again; --config is compiled. Of a shape that a range "
           "table serves it is the table's. Exit code 1\n"
           "if the output is wrong on any seed.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  VerifyRequest request_;
};

void VerifyCommand::declare(OptionTable& table) {
  declare_workload(table, request_.target.workload, true);
  table.text("config", "CONFIG", request_.config, "tile=64,stages=3,...: this instead; the rest by default");
  table.whole("seed", request_.seed, 0, 1'000'000'000, "of the first of the inputs; 0: another one each time");
  declare_gpu(table, request_.target.device);
  declare_cache(table, request_.target.cache);
  table.whole("seeds", request_.seeds, 1, 1000, "fresh inputs to check on");
  table.span("trial-time", request_.trial_time_s, "time limit of one check on the GPU; a sanitizer needs more");
}

std::string allowed_text(const CheckedOutput& output) {
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
         format(
             ": dissimilarity %.3g; max error %.3g of the low-precision baseline's, plus that of a sum of %.0f terms\n",
             tolerance.dissimilarity, tolerance.baseline_factor, tolerance.terms);
}

void print(const VerifyResult& result, std::ostream& out) {
  Table table({"seed", "outcome", "max error", "of allowed", "dissimilarity", ""}, {0, 2, 3, 4});
  for (const auto& [seed, check] : result.checks) {
    table.add({std::to_string(seed), std::string(outcome_name(check.outcome)), format("%.3g", check.max_error),
               format("%.0f%%", 100 * check.error_share), format("%.3g", check.dissimilarity), check.message});
  }
  std::string allowed;
  for (const CheckedOutput& checked : result.outputs) allowed += "allowed in " + allowed_text(checked);
  out << result.subject.kernel << " " << result.subject.problem << "\n"
      << result.config << "\n"
      << served_line(result.table, result.cell) << "  its cubin is " << result.cubin << "; "
      << programs_text(result.programs_compiled) << table.text("  ") << allowed
      << (result.inputs_from_files ? "the inputs are those of the kernel's files, by turns: none of them is fresh\n"
                                   : "")
      << (result.checks.empty() ? "nothing was checked\n"
          : result.right()      ? "right\n"
                                : "WRONG\n");
}

int VerifyCommand::run(Output& output, std::stop_token stop) {
  const VerifyResult result = verify(request_, {.events = {.listener = note_listener(output)}, .stop = stop});
  if (!result.cubin.empty()) print(result, output.result());
  if (result.interrupted) {
    output.note(format("Interrupted after %zu of %zu checks.", result.checks.size(), request_.seeds));
  }
  output.document(verify_document(result));
  return result.right() ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace moetune
