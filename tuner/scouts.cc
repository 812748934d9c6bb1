#include "tuner/scouts.h"

#include "tuner/compile/static_facts.h"

namespace moetune {
namespace {

// Of the strategy's likeliest: more of them compile more in vain and are asked no sooner.
constexpr std::size_t kForeseen = 8;
// Threads left to what is asked for good.
constexpr std::size_t kKeptIdle = 2;

}  // namespace

Scouts::Scouts(const TuneRequest& request, const TuneTools& tools, Searcher& searcher)
    : request_(request), tools_(tools), searcher_(searcher), scouting_(searcher) {}

void Scouts::send(std::size_t most_out, std::size_t told) {
  const bool recorded = tools_.device.info().recorded;
  if (recorded ? !tools_.device.has_facts() : tools_.compiler == nullptr || request_.kernel == nullptr)
    return;
  for (const ConfigId id : scouting_.send(most_out, told)) {
    if (recorded) continue;
    Sent& sent = sent_[id];
    sent.plan = plan_of(id);
    sent.build = tools_.compiler->submit(sent.plan.unit, CompilePool::Urgency::ahead);
  }
}

void Scouts::learn_due(std::size_t told) {
  while (const std::optional<ConfigId> id = scouting_.due(told)) {
    if (request_.ready_first && !is_compiled(*id)) return;
    scouting_.take_due(told);
    searcher_.learn(*id, facts_of(*id));
    if (!asked_.contains(*id)) unmeasured_.insert(*id);
  }
}

void Scouts::compile_foreseen() {
  if (tools_.device.info().recorded || tools_.compiler == nullptr || request_.kernel == nullptr) return;
  std::size_t idle = tools_.compiler->idle();
  if (idle <= kKeptIdle) return;
  for (const ConfigId id : searcher_.foresee(kForeseen)) {
    if (idle <= kKeptIdle) return;
    if (asked_.contains(id) || !foreseen_.insert(id).second) continue;
    tools_.compiler->submit(plan_of(id).unit, CompilePool::Urgency::ahead);
    unmeasured_.insert(id);
    --idle;
  }
}

Plan Scouts::plan_of(ConfigId id) const {
  return request_.kernel->plan(request_.space->config(id), request_.problem, tools_.device.info().limits);
}

void Scouts::asked(ConfigId id) {
  asked_.insert(id);
  unmeasured_.erase(id);
}

bool Scouts::is_compiled(ConfigId id) const {
  const auto sent = sent_.find(id);
  return sent == sent_.end() ||
         sent->second.build.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Facts Scouts::facts_of(ConfigId id) {
  if (tools_.device.info().recorded) return tools_.device.facts(request_.space->config(id));
  const auto sent = sent_.extract(id);
  return static_facts(sent.mapped().plan, *sent.mapped().build.get(), tools_.device.info().limits);
}

}  // namespace moetune
