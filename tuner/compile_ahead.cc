#include "tuner/compile_ahead.h"

namespace moetune {
namespace {

// The number of the strategy's likeliest that are compiled ahead. More would compile more in vain and be asked no
// sooner.
constexpr std::size_t kLikeliest = 8;
// Threads that are left to real requests.
constexpr std::size_t kKeptIdle = 2;

}  // namespace

void CompileAhead::run(const Searcher& searcher) {
  if (tools_.device.info().recorded || tools_.compiler == nullptr || request_.kernel == nullptr) return;
  std::size_t idle = tools_.compiler->idle();
  if (idle <= kKeptIdle) return;
  for (const ConfigId id : searcher.likely_next(kLikeliest)) {
    if (idle <= kKeptIdle) return;
    if (asked_.contains(id) || !submitted_.insert(id).second) continue;
    const Plan plan = request_.kernel->plan(request_.space->config(id), request_.problem, tools_.device.info().limits);
    tools_.compiler->submit(plan.unit, CompilePool::Urgency::ahead);
    unmeasured_.insert(id);
    --idle;
  }
}

void CompileAhead::asked(ConfigId id) {
  asked_.insert(id);
  unmeasured_.erase(id);
}

}  // namespace moetune
