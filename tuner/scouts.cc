#include "tuner/scouts.h"

#include "tuner/static_facts.h"

namespace moetune {

Scouts::Scouts(const TuneRequest& request, const TuneTools& tools, Searcher& searcher, Wait wait)
    : request_(request), tools_(tools), searcher_(searcher), wait_(std::move(wait)), scouting_(searcher) {}

void Scouts::send(std::size_t most_out, std::size_t told) {
  const bool recorded = tools_.device.info().recorded;
  if (recorded ? !tools_.device.has_facts() : tools_.compiler == nullptr || request_.kernel == nullptr)
    return;
  for (const ConfigId id : scouting_.send(most_out, told)) {
    if (recorded) continue;
    Sent& sent = sent_[id];
    sent.plan =
        request_.kernel->plan(request_.space->config(id), request_.problem, tools_.device.info().limits);
    sent.build = tools_.compiler->submit(sent.plan.unit, CompilePool::Urgency::ahead);
  }
}

void Scouts::learn_due(std::size_t told) {
  while (const std::optional<ConfigId> id = scouting_.take_due(told)) {
    searcher_.learn(*id, facts_of(*id));
    if (!asked_.contains(*id)) unmeasured_.insert(*id);
  }
}

void Scouts::asked(ConfigId id) {
  asked_.insert(id);
  unmeasured_.erase(id);
}

Facts Scouts::facts_of(ConfigId id) {
  if (tools_.device.info().recorded) return tools_.device.facts(request_.space->config(id));
  const auto sent = sent_.extract(id);
  const BuildPtr build = wait_(sent.mapped().build);
  return build != nullptr ? static_facts(sent.mapped().plan, *build, tools_.device.info().limits) : Facts();
}

}  // namespace moetune
