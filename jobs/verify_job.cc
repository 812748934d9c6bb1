#include "jobs/verify_job.h"

#include <algorithm>

#include "base/random_text.h"
#include "jobs/session/gpu_session.h"
#include "jobs/stored/stored_candidate.h"

namespace moetune {
namespace {

// Fewer than wanted if a stop request came first.
std::vector<InputCheck> check_inputs(Session& session, const Candidate& candidate, const VerifyRequest& request,
                                     const Events& events, bool& disturbed) {
  std::vector<InputCheck> checks;
  try {
    const std::uint64_t first = request.seed != 0 ? request.seed : random_seed() + 1;
    session.device().open(*session.kernel(), session.problem(), first);
    for (std::uint64_t i = 0; i < request.seeds; ++i) {
      const std::uint64_t seed = first + i;
      checks.push_back({seed, session.device().verify(candidate, seed, request.trial_time_s)});
    }
    const std::optional<CanaryReading> canary = session.device().canary();
    disturbed = canary && canary->is_disturbed();
    if (disturbed) events.emit(GpuDisturbed{*canary});
  } catch (const Stopped&) {
  }
  return checks;
}

Document check_document(const InputCheck& check) {
  return {{"seed", check.seed},
          {"outcome", outcome_name(check.result.outcome)},
          {"max_error", check.result.max_error},
          {"error_share", check.result.error_share},
          {"dissimilarity", check.result.dissimilarity},
          {"message", check.result.message}};
}

std::vector<CheckedOutput> checked_outputs(const std::vector<Buffer>& buffers) {
  std::vector<CheckedOutput> outputs;
  for (const Buffer& buffer : buffers) {
    if (buffer.is_written()) outputs.push_back({buffer.name, buffer.check});
  }
  return outputs;
}

Document allowed_document(const CheckedOutput& output) {
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
          {"terms", tolerance.terms}};
}

}  // namespace

bool VerifyResult::right() const {
  return !checks.empty() &&
         std::ranges::all_of(checks, [](const InputCheck& check) { return check.result.outcome == Outcome::ok; });
}

VerifyResult verify(const VerifyRequest& request, const JobContext& context) {
  Session session = gpu_session(request.target, request.config, "verify", context);
  const bool stored = !request.config.has_value();
  const std::vector<Buffer> buffers = session.kernel()->buffers(session.problem(), request.seed);
  VerifyResult result{.subject = session.subject(),
                      .stored = stored,
                      .outputs = checked_outputs(buffers),
                      .inputs_from_files = std::ranges::any_of(buffers, [](const Buffer& buffer) {
                        return buffer.is_read() && buffer.fill.kind == Fill::Kind::arrays;
                      })};
  try {
    Candidate candidate;
    if (stored) {
      StoredCandidate served = stored_candidates(session, context.events).front();
      candidate = std::move(served.candidate);
      result.table = served.table;
      result.cell = served.cell;
    } else {
      candidate = session.compile(session.parse_config(*request.config));
    }
    result.config = candidate.config.text();
    result.cubin = cubin_source(candidate, stored);
    context.events.emit(PhaseChanged{Phase::verifying});
    result.checks = check_inputs(session, candidate, request, context.events, result.disturbed);
  } catch (const Stopped&) {  // while the candidate was compiled
  }
  result.programs_compiled = session.programs_compiled();
  result.interrupted = result.checks.size() < request.seeds;
  context.events.emit(Finished{result.interrupted});
  return result;
}

Document verify_document(const VerifyResult& result) {
  Document document = subject_document(result.subject);
  document["config"] = result.config;
  document["stored"] = result.stored;
  document["table"] = text_or_null(result.table);
  document["cell"] = text_or_null(result.cell);
  document["cubin"] = result.cubin;
  document["programs_compiled"] = result.programs_compiled;
  document["outputs"] = Document::array();
  for (const CheckedOutput& output : result.outputs) document["outputs"].push_back(allowed_document(output));
  document["inputs_from_files"] = result.inputs_from_files;
  document["checks"] = Document::array();
  for (const InputCheck& check : result.checks) document["checks"].push_back(check_document(check));
  document["disturbed"] = result.disturbed;
  document["interrupted"] = result.interrupted;
  document["right"] = result.right();
  return document;
}

}  // namespace moetune
