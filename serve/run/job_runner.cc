#include "serve/run/job_runner.h"

#include <exception>
#include <new>

#include "base/error.h"
#include "jobs/stored/stored_candidate.h"

namespace moetune {
namespace {

enum RunnerExit : int { kJobDone = 0, kJobFoundNothing = 1, kJobBadInput = 2, kJobBroken = 3 };

struct Answered {
  Document document;
  int exit_code = kJobDone;
};

class Runner {
 public:
  Runner(const std::string& device, const RunnerSettings& settings, const JobContext& context)
      : device_(device), settings_(settings), context_(context) {}

  Answered operator()(SearchRequest request) const {
    aim(request.target);
    request.threads = settings_.threads;
    const SearchResult result = search(request, context_);
    return {search_document(request, result), result.tune.best ? kJobDone : kJobFoundNothing};
  }
  Answered operator()(RangeRequest request) const {
    aim(request.target);
    request.threads = settings_.threads;
    const RangeResult result = search_range(request, context_);
    return {range_document(request, result), result.table.cells.empty() ? kJobFoundNothing : kJobDone};
  }
  Answered operator()(TuneListRequest request) const {
    aim(request.search.target);
    request.search.threads = settings_.threads;
    const TuneListResult result = tune_list(request, context_, {});
    const bool failed = result.count(TunedState::left_out) + result.count(TunedState::nothing_valid) > 0;
    return {tune_list_document(result), failed ? kJobFoundNothing : kJobDone};
  }
  Answered operator()(NightRequest request) const {
    aim(request.search.target);
    request.search.threads = settings_.threads;
    request.is_locked = true;  // by the service, for as long as it lives
    const NightResult result = run_night(request, context_, {});
    const std::size_t wanted = result.plan.items.size() + result.plan.left_out.size() + result.plan.fresh.size();
    const bool all_failed = !result.broken.empty() || (wanted > 0 && result.failures() == wanted);
    return {night_document(result), all_failed ? kJobBroken : result.failures() > 0 ? kJobFoundNothing : kJobDone};
  }
  Answered operator()(VerifyRequest request) const {
    aim(request.target);
    const VerifyResult result = verify(request, context_);
    return {verify_document(result), result.right() ? kJobDone : kJobFoundNothing};
  }
  Answered operator()(BenchRequest request) const {
    aim(request.target);
    const BenchResult result = bench(request, context_);
    const bool timed = !result.interrupted && has_time(result.rows.front().result.outcome);
    return {bench_document(result), timed ? kJobDone : kJobFoundNothing};
  }

 private:
  void aim(JobTarget& target) const {
    target.device = device_;
    target.cache = settings_.cache;
  }

  const std::string& device_;
  const RunnerSettings& settings_;
  const JobContext& context_;
};

JobOutcome failed(int exit_code, const char* code, const std::string& message, const std::string& field = "") {
  return {.state = JobState::failed, .result = {}, .error = job_error(code, message, field), .exit_code = exit_code};
}

}  // namespace

std::string job_error(const std::string& code, const std::string& message, const std::string& field) {
  Document error = {{"code", code}, {"message", message}};
  if (!field.empty()) error["field"] = field;
  return error.dump(-1, ' ', false, Document::error_handler_t::replace);
}

JobOutcome run_job(const JobRequest& request, const std::string& device, const RunnerSettings& settings,
                   const JobContext& context) {
  try {
    const Answered answered = std::visit(Runner(device, settings, context), request.what);
    return {.state = JobState::done,
            .result = answered.document.dump(-1, ' ', false, Document::error_handler_t::replace),
            .error = {},
            .exit_code = answered.exit_code};
  } catch (const BadField& error) {
    return failed(kJobBadInput, "bad_field", error.reason(), error.field());
  } catch (const NothingTuned& error) {
    return failed(
        kJobBadInput, "nothing_tuned",
        std::string(error.what()) + "; start with: moetune search " + error.kernel() + " --problem " + error.problem());
  } catch (const BadInput& error) {
    return failed(kJobBadInput, "bad_input", error.what());
  } catch (const Stopped&) {
    return failed(kJobFoundNothing, "stopped", "it was stopped");
  } catch (const BrokenEnvironment& error) {
    return failed(kJobBroken, "broken_environment", error.what());
  } catch (const std::bad_alloc&) {
    return failed(kJobBroken, "broken_environment", "out of memory");
  } catch (const std::exception& error) {
    return failed(kJobBroken, "internal", std::string("a bug in moetune: ") + error.what());
  }
}

}  // namespace moetune
