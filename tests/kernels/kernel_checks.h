// What the tests of several kernels check in the same way. Free functions, which check with doctest.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/refusal.h"
#include "tests/sanitized.h"

namespace moetune {

// A problem of the kernel. Throws BadInput if the text breaks a rule of one dimension or across them.
inline Problem checked_problem(const std::string& kernel, const std::string& text) {
  Problem problem = find_kernel(kernel).parse(text);
  find_kernel(kernel).check(problem);
  return problem;
}

// Why the kernel refuses its default call with one field changed; empty if it does not.
inline std::string call_refusal(const Kernel& kernel, const Problem& problem, const char* field, double value) {
  Call call = kernel.default_call(problem);
  set_field(call, kernel.call_schema(), field, value);
  return refusal_of([&] { kernel.check_call(problem, call); });
}

// On a GPU of 16 SMs the problem has more than `count` legal configurations, and no two of them launch the same code
// in the same way. Plans are compared: source, macros, launches and their arguments. Whether templates heed all macros
// is for tests/tuner/compile/space_compile_test.cc, which compiles a sample.
inline void check_launches_differ(const Problem& problem, std::size_t count) {
  CAPTURE(problem.text());
  DeviceLimits limits = limits_of_architecture("sm_90a");
  limits.sm_count = 16;
  const LegalSpace legal = shared_space(problem.kernel).enumerate(expression_environment(problem, limits));
  CHECK(legal.size() > count);
  std::set<std::string> seen;
  for (ConfigId id = 0; id < legal.size(); id += kSanitized ? 17 : 1) {
    const nlohmann::json plan = find_kernel(problem.kernel).plan(legal.config(id), problem, limits);
    CHECK_MESSAGE(seen.insert(plan.dump()).second, legal.config(id).text());
  }
}

// What include/moetune_kernels.h numbers for a kernel: the index of every tensor and of every field of a call, with its
// name.
struct NumberedNames {
  std::map<int, std::string> tensors, integers, reals;
};

// The family of the problem, which has all tensors, and the kernel's calls have the same names at the same indices, and
// no others.
inline void check_c_interface(const Problem& problem, const NumberedNames& names) {
  const Kernel& kernel = find_kernel(problem.kernel);
  const auto family = kernel.family_interface(problem);
  REQUIRE(family->tensors().size() == names.tensors.size());
  for (const auto& [slot, name] : names.tensors)
    CHECK(family->tensors()[static_cast<std::size_t>(slot)].name.text() == name);
  const auto check_fields = [](const std::vector<CallField>& fields, const std::map<int, std::string>& named) {
    REQUIRE(fields.size() == named.size());
    for (const auto& [slot, name] : named) CHECK(fields[static_cast<std::size_t>(slot)].name == name);
  };
  check_fields(kernel.call_schema().integers, names.integers);
  check_fields(kernel.call_schema().reals, names.reals);
}

}  // namespace moetune
