#include "tuner/worker/loaded_plan.h"

#include <algorithm>

namespace moetune {

Arena::Arena(std::string name, std::int64_t bytes, std::int64_t copies, const cuda::Stream& stream)
    : name_(std::move(name)), layout_(ArenaLayout::of(bytes, copies)), memory_(cuda::allocate(layout_.total())) {
  cuda::set_bytes(memory_.get(), kPoisonByte, layout_.total(), stream);
}

std::string Arena::damage(Harness& harness, std::uint8_t guard) const {
  const std::optional<std::int64_t> first = harness.first_damage(memory_.get(), layout_, guard);
  if (!first) return "";
  std::string text = "wrote outside '" + name_ + "': ";
  if (*first < layout_.guard) return text + std::to_string(layout_.guard - *first) + " bytes before its start";
  const std::int64_t copy = (*first - layout_.guard) / layout_.stride;
  const std::int64_t end = layout_.offset(copy) + layout_.bytes;
  text += std::to_string(*first - end) + " bytes past its end";
  return layout_.copies == 1 ? text : text + " (copy " + std::to_string(copy) + ")";
}

LoadedPlan::LoadedPlan(const LaunchPlan& plan, std::span<const std::uint8_t> cubin, TurnAddress buffers,
                       const cuda::Stream& stream)
    : plan_(plan), alone_(plan), buffers_(std::move(buffers)), stream_(stream), cubin_(plan, cubin) {
  for (Launch& first : alone_.launches) {
    first.programmatic_dependent = false;
    break;
  }
  for (const Scratch& scratch : plan_.scratch) {
    const Arena& arena = scratch_.emplace_back(scratch.name.text(), scratch.bytes, 1, stream_);
    if (scratch.zeroed) cuda::set_bytes(arena.address(0), 0, scratch.bytes, stream_);
  }
}

cuda::Address LoadedPlan::resolve(std::string_view name, std::int64_t turn) const {
  for (const Arena& arena : scratch_) {
    if (arena.name() == name) return arena.address(0);
  }
  return buffers_(name, turn);
}

const BoundPlan& LoadedPlan::bound(BoundPlans& plans, const LaunchPlan& plan, std::int64_t turn) {
  const auto index = static_cast<std::size_t>(turn);
  if (plans.size() <= index) plans.resize(index + 1);
  if (!plans[index]) {
    plans[index].emplace(
        plan, cubin_.functions(), [&](std::string_view name) { return resolve(name, turn); },
        [&](const Memset& memset) { return cubin_.symbol(memset); });
  }
  return *plans[index];
}

void LoadedPlan::enqueue(std::int64_t turn) { bound(bound_, plan_, turn).enqueue(stream_); }

void LoadedPlan::enqueue_alone(std::int64_t turn) { bound(bound_alone_, alone_, turn).enqueue(stream_); }

void LoadedPlan::poison_scratch() {
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    const Scratch& scratch = plan_.scratch[i];
    if (!scratch.zeroed) cuda::set_bytes(scratch_[i].address(0), kPoisonByte, scratch.bytes, stream_);
  }
}

std::string LoadedPlan::scratch_damage(Harness& harness) const {
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    if (std::string text = scratch_[i].damage(harness); !text.empty()) return text;
    if (!plan_.scratch[i].zeroed) continue;
    std::vector<std::uint8_t> counters(static_cast<std::size_t>(plan_.scratch[i].bytes));
    cuda::copy_to_host(counters, scratch_[i].address(0), stream_);
    const auto left = std::find_if(counters.begin(), counters.end(), [](std::uint8_t byte) { return byte != 0; });
    if (left != counters.end())
      return "left byte " + std::to_string(left - counters.begin()) + " of its counters '" + scratch_[i].name() +
             "' at " + std::to_string(*left) + ", not at zero";
  }
  return "";
}

}  // namespace moetune
