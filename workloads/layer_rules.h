// The rules by which configurations say which layers attend how, and which have experts: a row of data for each field.
// Pure functions. Throws as model_layers.h says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/model_layers.h"

namespace moetune {

// Kinds of layers that do not attend.
inline constexpr const char *kNoAttention = "mlp", *kExpertLayer = "moe";

// One a layer.
std::vector<std::string> kinds_of_layers(const ModelFields& fields, const ModelFamily* family, std::int64_t layers);
// The length of the list that gives every layer's kind; nullopt if there is none.
std::optional<std::int64_t> layers_of_lists(const ModelFields& fields);
// nullopt if no field lists the layers with experts.
std::optional<ExpertLayerCount> expert_layers_listed(const ModelFields& fields, std::int64_t layers);
// Whether each layer has experts by the first, the last, a step and the dense ones, where no field lists them.
std::vector<bool> sparse_by_steps(const ModelFields& fields, std::int64_t layers);
// Tokens that a token of sliding attention sees, layer by layer, beginning again at the end; 0 for all. Empty if the
// model has no window, or does not use it.
std::vector<std::int64_t> sliding_windows(const ModelFields& fields);

enum class RulesOf { attention, experts };
// Throws NotUnderstood if a field looks like such a rule and is not known.
void refuse_unknown_rules(const ModelFields& fields, RulesOf layers);

}  // namespace moetune
