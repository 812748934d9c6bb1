// Reads a model's experts from its configuration: how many, who chooses them, and the tensors sent to
// them. Pure functions. Errors: BadInput that names file, line and key.
#pragma once

#include <string>
#include <vector>

#include "kernels/model_workloads.h"
#include "workloads/model_families.h"
#include "workloads/model_fields.h"

namespace moetune {

// A value of model_type, and its row; nullptr if the family is not known.
struct NamedFamily {
  std::string type;
  const ModelFamily* row = nullptr;
};

// `root` is the whole configuration, `fields` the language model's; `dtype` that of activations. Everything left out is
// added to `notes`, a sentence each.
ExpertLayers read_experts(const ModelFields& root, const ModelFields& fields, const NamedFamily& family,
                          const std::string& dtype, std::int64_t layers, std::vector<std::string>& notes);

}  // namespace moetune
