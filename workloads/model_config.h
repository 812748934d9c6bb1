// A model's config.json, as Hugging Face's transformers write it, read for what its layers ask of the kernels.
// Pure functions. Errors: BadInput that names file, line and key.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/model_workloads.h"

namespace moetune {

struct ModelConfig {
  ModelFacts facts;
  std::vector<std::string>
      notes;  // layers that no kernel serves, and what had to be assumed; a sentence each
};

ModelConfig read_model_config(const std::filesystem::path& file);
ModelConfig parse_model_config(std::string text, const std::string& file);

}  // namespace moetune
