// A model's configuration, as Hugging Face's transformers (config.json) or Mistral (params.json) write it, read for
// what its layers ask of the kernels. Anything not understood is left out, and a note names it.
// Pure functions. Errors: BadInput that names file, line and key.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/model_workloads.h"

namespace moetune {

struct ModelConfig {
  ModelFacts facts;
  std::vector<std::string> notes;  // layers that no kernel serves, and what was not understood; a sentence each
};

// `path` is a file, or a model's folder.
ModelConfig read_model_config(const std::filesystem::path& path);
ModelConfig parse_model_config(std::string text, const std::string& file);

}  // namespace moetune
