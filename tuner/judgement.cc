#include "tuner/judgement.h"

#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/resources.h"
#include "kernels/buffer_json.h"
#include "tuner/compile/sources.h"
#include "tuner/worker/harness.h"

namespace moetune {
namespace {

// Raise it if what judges (tuner/worker/validator.*, host_compare.*) decides otherwise than before.
constexpr const char* kRules = "1";
// Inputs are described alike for every seed; the values that a search draws do not change the verdict.
constexpr std::uint64_t kSeed = 1;

std::string_view bytes_of(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Judgement::Judgement(const Kernel* kernel, const Problem& problem, const DeviceInfo& device) {
  if (kernel != nullptr && !device.recorded) *this = Judgement(*kernel, problem, device.limits);
}

const std::string& SourceDigests::of(const std::string& path) {
  auto known = known_.find(path);
  if (known == known_.end())
    known = known_.emplace(path, find_resource(path) ? source_digest(path) : std::string()).first;
  return known->second;
}

Judgement::Judgement(const Kernel& kernel, const Problem& problem, const DeviceLimits& limits,
                     std::shared_ptr<SourceDigests> sources)
    : kernel_(&kernel), problem_(problem), limits_(limits), sources_(std::move(sources)) {
  DigestBuilder builder;
  Plan harness;
  harness.unit.source = Harness::kSource;
  builder.add(kRules).add(text_of(harness));
  for (const Reference which : {Reference::exact, Reference::baseline})
    builder.add(text_of(kernel.reference(which, problem, limits)));
  std::vector<std::vector<std::uint8_t>> lists;
  builder.add(buffers_text(kernel.buffers(problem, kSeed), lists));
  for (const std::vector<std::uint8_t>& list : lists) builder.add(bytes_of(list));
  of_problem_ = builder.finish();
}

std::string Judgement::of(const Config& config) const {
  if (kernel_ == nullptr) return "";
  return DigestBuilder().add(of_problem_).add(text_of(kernel_->plan(config, problem_, limits_))).finish();
}

bool Judgement::holds(const TrialRecord& record, const LegalSpace& space) const try {
  const std::optional<ConfigId> id = space.find_text(record.config);
  const nlohmann::json source = parse_json_or_discard(record.provenance);
  const std::string then = source.is_object() && source.contains("judged") && source["judged"].is_string()
                               ? source["judged"].get<std::string>()
                               : "";
  return id && then == of(space.config(*id));
} catch (const BadInput&) {  // no configuration's text
  return false;
}

std::string Judgement::text_of(const Plan& plan) const { return sources_->of(plan.unit.source) + plan_text(plan); }

}  // namespace moetune
