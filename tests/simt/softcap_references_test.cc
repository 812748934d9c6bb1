// With a softcap a search's queries are large; the two references of attention must still agree as it wants.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "tests/simt/simt_problem.h"

using namespace moetune;
using namespace moetune::testing;

TEST_CASE("simt: the references of attention agree where scores reach a softcap") {
  for (const auto& [kernel, text] :
       {std::pair("decode_attention", "batch=1,q_heads=8,kv_heads=2,head_dim=64,context=800,page=256"),
        std::pair("prefill_attention", "batch=1,q_heads=2,kv_heads=1,head_dim=64,seqlen_q=30,seqlen_kv=300")}) {
    for (const char* const softcap : {",softcap=1", ",softcap=30", ",softcap=50", ",softcap=100"}) {
      CAPTURE(std::string(text) + softcap);
      const SimtProblem one(kernel, std::string(text) + softcap, 3);
      const HostTensors exact = one.reference(Reference::exact), plain = one.reference(Reference::baseline);
      double products = 0, squares = 0;
      for (std::size_t i = 0; i < exact.at("o").size(); ++i) {
        const double x = exact.at("o")[i], y = plain.at("o")[i];
        products += x * y;
        squares += x * x + y * y;
      }
      CHECK(1 - 2 * products / squares < 0.0002);  // a search wants 0.001
    }
  }
}
