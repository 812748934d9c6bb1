#include "jobs/search_job.h"

#include "base/as_field.h"
#include "base/suggest.h"
#include "jobs/propose/external_proposer.h"
#include "jobs/propose/messages.h"
#include "jobs/propose/variants.h"
#include "jobs/session/session.h"
#include "search/searcher.h"
#include "tuner/history.h"

namespace moetune {
namespace {

void check_strategy(const std::string& strategy) {
  as_field("strategy", [&] { return &find_by_name("strategy", strategy, strategies(), &StrategyInfo::name); });
}

// Its task refers to the session and the variants.
std::unique_ptr<ExternalProposer> start_proposer(const ProposerCommand& command, const Session& session,
                                                 const TuneRequest& request, SourceVariants& variants,
                                                 const Events& events) {
  const std::optional<Floor> floor = session.subject().floor;
  ExternalProposer::Task task{
      .space = session.space(),
      .hello = hello_document(session, request),
      .why_illegal =
          [&session](const Config& config) {
            return session.kernel() == nullptr ? std::string()
                                               : session.space_file()->why_illegal(config, session.environment());
          },
      .tell = [objective = request.objective, floor](
                  const Trial& trial, const Build* build) { return tell_document(trial, build, objective, floor); },
      .seed = request.seed};
  task.why_no_variants = SourceVariants::why_none(session);
  if (task.why_no_variants.empty())
    task.try_variant = [&variants](const Document& variant) { return variants.try_variant(variant); };
  return std::make_unique<ExternalProposer>(command, std::move(task), events);
}

}  // namespace

std::vector<History> search_hints(Session& session, const JobContext& context) {
  if (session.cache() == nullptr) return {};
  const TransferContext transfer_context{session.kernel(), session.space_file(), session.info().limits};
  return histories_for(*session.cache(), session.key(), session.space(),
                       session.kernel() == nullptr ? nullptr : &transfer_context, [&](const std::string& sentence) {
                         context.events.emit(Warning{WarningKind::history_left_out, sentence});
                       });
}

SearchResult search(const SearchRequest& request, const JobContext& context) {
  if (!request.proposer) check_strategy(request.settings.strategy);
  const WorkerWaits waits = waits_of(context, request.settings.time_budget_s);
  Session session(
      choose_device(request.target.device, request.target.workload, {.replay = request.target.replay, .waits = waits}),
      {.cache = request.target.cache,
       .no_compile = request.no_compile,
       .threads = request.threads,
       .timing = request.settings.policy.timing,
       .waits = waits},
      context.events);
  TuneRequest tuning = session.request(request.settings);
  if (!request.cold) tuning.histories = search_hints(session, context);

  SearchResult result{.subject = session.subject(),
                      .legal = session.space().size(),
                      .histories = tuning.histories.size(),
                      .compiled = session.compiler() != nullptr,
                      .timing = session.key().timing};
  std::unique_ptr<ExternalProposer> proposer;
  SourceVariants variants(session, tuning);
  if (request.proposer) proposer = start_proposer(*request.proposer, session, tuning, variants, context.events);
  tuning.proposer = proposer.get();
  result.tune = session.tune(tuning, context.stop);
  if (proposer != nullptr) result.proposer = proposer->report();
  if (proposer != nullptr) result.variant = variants.meet(result.tune);
  context.events.emit(Finished{result.tune.interrupted});
  return result;
}

}  // namespace moetune
