// What the tests of decode_attention share.
#pragma once

#include <string>

#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"

namespace moetune::decode_attention_tests {

inline const Kernel& kernel() { return find_kernel("decode_attention"); }

inline Problem problem(const std::string& text) {
  const Problem parsed = parse_problem("decode_attention", kernel().schema(), nullptr, text);
  kernel().check(parsed);
  return parsed;
}

inline const Space& space() {
  static const Space parsed =
      Space::parse(read_resource("spaces/decode_attention.json"), "spaces/decode_attention.json");
  return parsed;
}

}  // namespace moetune::decode_attention_tests
