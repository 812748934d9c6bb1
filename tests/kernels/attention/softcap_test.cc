// The softcap of both attention kernels: that a search's inputs tell whether it is there.
#include <doctest/doctest.h>

#include <string>

#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"

namespace moetune {
namespace {

double dissimilarity_of_outputs(const HostTensors& a, const HostTensors& b) {
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < a.at("o").size(); ++i) {
    const double x = a.at("o")[i], y = b.at("o")[i];
    products += x * y;
    squares += x * x + y * y;
  }
  return 1 - 2 * products / squares;
}

}  // namespace

TEST_CASE("a softcap changes what a search compares by far more than is allowed") {
  for (const auto& [name, text] :
       {std::pair("decode_attention", "batch=2,q_heads=4,kv_heads=2,head_dim=64,context=300"),
        std::pair("prefill_attention", "batch=1,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=20,seqlen_kv=300"),
        std::pair("prefill_attention",
                  "batch=1,q_heads=4,kv_heads=2,head_dim=64,seqlen_q=20,seqlen_kv=300,kv_dtype=e4m3,q_dtype=e4m3")}) {
    for (const char* const softcap : {",softcap=1", ",softcap=30", ",softcap=50", ",softcap=100"}) {
      CAPTURE(std::string(text) + softcap);
      const Kernel& kernel = find_kernel(name);
      const Problem capped = kernel.parse(std::string(text) + softcap), plain = kernel.parse(text);
      const Call call = kernel.default_call(capped);
      HostTensors inputs;
      std::uint64_t stream = 0;
      for (const Buffer& buffer : kernel.buffers(capped, call, 7))
        if (!buffer.is_written()) inputs[buffer.name] = host_values(buffer, 7, stream++);
      CHECK(dissimilarity_of_outputs(answer_on_cpu(capped, call, inputs), answer_on_cpu(plain, call, inputs)) > 0.01);
    }
  }
}

}  // namespace moetune
