// A bug planted in a kernel's template: the configuration without it must pass, and with it be rejected. Free
// functions, which check with doctest.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/registry.h"
#include "tests/gpu/gpu.h"

namespace moetune {

// `right`, in templates/KERNEL/`file`, becomes `wrong`.
struct PlantedBug {
  const char* problem;
  const char* config;
  const char* file;
  const char* right;
  const char* wrong;
};

// Reads through `base` with the bug in place; `found` tells whether its place exists.
inline SourceReader reader_with(SourceReader base, const std::string& kernel, const PlantedBug& bug,
                                std::shared_ptr<bool> found) {
  return [base = std::move(base), kernel, bug, found](const std::string& path) {
    std::optional<std::string> text = base(path);
    if (path != "templates/" + kernel + "/" + bug.file) return text;
    const std::string right = bug.right;
    const std::size_t where = text ? text->find(right) : std::string::npos;
    *found = where != std::string::npos;
    if (*found) text->replace(where, right.size(), bug.wrong);
    return text;
  };
}

inline void check_place_exists(SourceReader base, const std::string& kernel, const PlantedBug& bug) {
  CAPTURE(bug.file);
  CAPTURE(bug.right);
  const auto found = std::make_shared<bool>(false);
  reader_with(std::move(base), kernel, bug, found)("templates/" + kernel + "/" + bug.file);
  CHECK(*found);
}

// Needs a GPU.
inline void check_rejected(const Kernel& kernel, const Problem& problem, const Config& config, const PlantedBug& bug,
                           const SourceReader& base) {
  CAPTURE(bug.config);
  CAPTURE(bug.right);
  const Plan plan = kernel.plan(config, problem, gpu().info().limits);
  gpu().open(kernel, problem, 7);
  const auto compile = [&](SourceReader reader) {
    Compiler::Options options;
    options.architecture = gpu().info().architecture;
    options.reader = std::move(reader);
    return std::make_shared<const Build>(Compiler(options).compile(plan.unit));
  };
  const TrialResult right = gpu().run({config, plan, compile(base)}, one_sample());
  CHECK_MESSAGE(right.outcome == Outcome::ok, right.message);

  const auto found = std::make_shared<bool>(false);
  const auto build = compile(reader_with(base, kernel.name(), bug, found));
  REQUIRE(*found);
  REQUIRE_MESSAGE(build->outcome == Outcome::ok, build->message);
  CHECK(gpu().run({config, plan, build}, one_sample()).outcome == Outcome::wrong_result);
}

}  // namespace moetune
