#include "kernels/attention/options.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"

using namespace moetune;

TEST_CASE("options of a call are read whole, and what they do not state stays") {
  constexpr CallRules kRules("k");
  const AttentionOptions usual{.scale = 0.125, .kv_settled = false};
  const AttentionOptions read = read_attention_options(kRules, "scale=0.25,layout=heads_first,kv_settled=1", usual);
  CHECK(read.heads_first);
  CHECK(read.scale == 0.25);
  CHECK(read.kv_settled == true);
  CHECK(read_attention_options(kRules, "layout=tokens_first", usual).scale == 0.125);
  for (const std::string wrong : {"scale=0", "scale=-1", "scale=nan", "scale=1x", "scale=", "scale", "layout=x",
                                  "kv_settled=2", "speed=9", "scale=1,,"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(read_attention_options(kRules, wrong, usual), BadInput);
  }
  CHECK_THROWS_AS(read_attention_options(kRules, "kv_settled=1", {}), BadInput);  // of a kernel that has none
}
