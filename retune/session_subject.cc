#include "retune/session_subject.h"

#include <algorithm>

#include "base/error.h"
#include "cache/winners.h"
#include "retune/neighbourhood.h"
#include "search/assignment.h"
#include "tuner/history.h"
#include "tuner/judgement.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

constexpr double kEarlierConditions = 0.25;  // as far as a dimension changed by a fifth

DeviceChoice choose_or_move(const JobTarget& target, std::optional<DeviceChoice> opened, const JobContext& context) {
  if (!opened)
    return choose_device(target.device, target.workload, {.replay = target.replay, .waits = waits_of(context)});
  opened->what = kernel_problem(target.workload);
  return *std::move(opened);
}

}  // namespace

SessionSubject::SessionSubject(const SearchRequest& request, bool resumes, std::function<void(Remedy)> begun,
                               const JobContext& context, std::optional<DeviceChoice> opened)
    : request_(request),
      resumes_(resumes),
      begun_(std::move(begun)),
      context_(context),
      session_(choose_or_move(request.target, std::move(opened), context),
               {.cache = request.target.cache,
                .no_compile = request.no_compile,
                .threads = request.threads,
                .timing = request.settings.policy.timing},
               context.events) {
  find_stored();
}

void SessionSubject::find_stored() {
  stored_.reset();
  if (session_.cache() == nullptr) return;
  try {
    StoredSpaces spaces;
    stored_ = find_winner(*session_.cache(), session_.key(), spaces);
  } catch (const DamagedWinner&) {
  }
  if (stored_ && (!stored_->winner || stored_->winner->contended)) stored_.reset();
}

std::optional<ConfigId> SessionSubject::default_id() {
  const std::optional<Config>& config = session_.default_config();
  return config ? space().find(*config) : std::nullopt;
}

std::optional<Candidate> SessionSubject::incumbent() {
  if (!stored_) return std::nullopt;
  Config config;
  if (const auto id = space().find_text(stored_->winner->config)) {
    config = space().config(*id);
  } else {  // of another space: its plan is what runs
    for (const auto& [name, value] : split_assignment(stored_->winner->config, "the stored configuration"))
      config.set(name, Value::named(value, 0));
  }
  return from_winner(*stored_->winner, config);
}

bool SessionSubject::is_proven() {
  if (!stored_) return true;
  return source_of(stored_->winner->provenance, "judged") ==
         Judgement(session_.kernel(), session_.problem(), session_.info()).of_problem();
}

std::vector<OldTrial> SessionSubject::old_trials() {
  std::vector<OldTrial> trials;
  if (!stored_) return trials;
  for (const TrialRecord& record : session_.cache()->trials.of(stored_->workload.id))
    if (record.outcome == outcome_name(Outcome::ok) && !record.contended)
      trials.push_back({record.config, record.time_us});
  return trials;
}

std::vector<std::string> SessionSubject::earlier() {
  std::vector<std::string> configs;
  if (!stored_) return configs;
  for (const Generation& one : session_.cache()->winners.history(stored_->workload.id)) {
    const bool is_unwanted = one.reason == kReplacedRollback;  // somebody did not want it any more
    if (!one.contended && !is_unwanted && std::ranges::find(configs, one.config) == configs.end())
      configs.push_back(one.config);
  }
  return configs;
}

// The winner's neighbours, and what a probe measures beside it.
LegalSpace SessionSubject::near_winner() {
  std::vector<std::string> also = earlier();
  if (const std::optional<Config>& config = session_.default_config()) also.push_back(config->text());
  for (const OldTrial& one : choose_panel(old_trials(), stored_->winner->config, "", {})) also.push_back(one.config);
  return neighbourhood(space(), stored_->winner->config, also);
}

std::optional<Candidate> SessionSubject::prepare(ConfigId id) {
  if (session_.compiler() == nullptr) return Candidate{.config = space().config(id)};
  Attempt attempt = session_.try_compile(space().config(id));
  if (attempt.outcome != Outcome::ok) return std::nullopt;
  return std::move(attempt.candidate);
}

void SessionSubject::open_device() {
  device().set_stop(context_.stop);
  device().open(*session_.kernel(), session_.problem(), request_.settings.seed);
}

TuneResult SessionSubject::search(Remedy remedy) {
  TuneRequest tuning = session_.request(request_.settings);
  tuning.store_winner = false;
  std::optional<LegalSpace> near;
  if (remedy == Remedy::patch) tuning.budget = std::max<std::size_t>(20, tuning.budget / kPatchShare);
  if (remedy == Remedy::patch && stored_) tuning.space = &near.emplace(near_winner());
  tuning.histories = search_hints(session_, context_);
  if (session_.cache() != nullptr) {
    const std::int64_t workload = session_.enter_workload();
    if (!resumes_) {
      History own = history_of_workload(*session_.cache(), workload, space(), kEarlierConditions);
      if (!own.trials.empty()) tuning.histories.insert(tuning.histories.begin(), std::move(own));
      // A contended winner leaves sound trials of today beside it, which hold.
      if (stored_) session_.cache()->trials.clear(workload);
    }
    begun_(remedy);
  }
  TuneResult result = session_.tune(tuning, context_.stop);
  if (near) renumber(result, *near, space());
  return result;
}

void SessionSubject::store(const TuneResult& result) {
  session_.store_winner(session_.request(request_.settings), result);
  find_stored();
}

bool SessionSubject::is_incumbent(const TuneResult& result) {
  if (!stored_) return false;
  const WorkloadKey &then = stored_->workload.key, &now = session_.key();
  return then.source_digest == now.source_digest && then.toolchain == now.toolchain &&
         result.best->config.text() == stored_->winner->config;
}

}  // namespace moetune
