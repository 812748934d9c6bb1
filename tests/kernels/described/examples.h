// The example kernels, and descriptions that differ from a sound one in one place.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "kernels/described/described_kernel.h"
#include "tests/paths.h"
#include "tests/texts.h"

namespace moetune::testing {

inline std::filesystem::path example_folder(const std::string& name) {
  return std::filesystem::path(paths::source()) / "examples/kernels" / name;
}

inline std::string example_text(const std::string& name) { return read_text(example_folder(name) / "kernel.json"); }

inline std::unique_ptr<const Kernel> own_kernel(const nlohmann::json& json) {
  return described_kernel(read_description(json.dump(), "own/kernel.json", json.value("kernel", "")));
}

inline std::unique_ptr<const Kernel> example(const std::string& name) {
  return described_kernel(read_description(example_text(name), name + "/kernel.json", name));
}

inline Problem own_problem(const Kernel& kernel, const std::string& text) {
  Problem problem = kernel.parse(text);
  kernel.check(problem);
  return problem;
}

}  // namespace moetune::testing
