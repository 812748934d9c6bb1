// What the tests of prefill_attention share.
#pragma once

#include <map>
#include <string>

#include "kernels/registry.h"
#include "search/space.h"
#include "tests/kernels/answers/host_values.h"
#include "tests/kernels/kernel_checks.h"

namespace moetune::prefill_attention_tests {

inline const Kernel& kernel() { return find_kernel("prefill_attention"); }

inline Problem problem(const std::string& text) { return checked_problem("prefill_attention", text); }

inline const Space& space() { return shared_space("prefill_attention"); }

inline std::map<std::string, Buffer> buffers_by_name(const Problem& of, const Call& call, std::uint64_t seed) {
  std::map<std::string, Buffer> named;
  for (Buffer& buffer : kernel().buffers(of, call, seed)) {
    const std::string name = buffer.name;
    named.emplace(name, std::move(buffer));
  }
  return named;
}

inline HostTensors host_inputs(const Problem& of, const Call& call, std::uint64_t seed) {
  HostTensors inputs;
  const std::vector<Buffer> buffers = kernel().buffers(of, call, seed);
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].role == Role::input) inputs[buffers[i].name] = host_values(buffers[i], seed, fill_stream(i, 0));
  }
  return inputs;
}

}  // namespace moetune::prefill_attention_tests
