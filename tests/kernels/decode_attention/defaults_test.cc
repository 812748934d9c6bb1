// The defaults of decode_attention.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/resources.h"
#include "kernels/registry.h"
#include "search/space.h"
#include "tests/kernels/decode_attention/fixture.h"
#include "tests/sanitized.h"

namespace moetune::decode_attention_defaults_test {
using decode_attention_tests::kernel, decode_attention_tests::space;

namespace {

Problem problem(const std::string& text) { return kernel().parse(text); }

// Every combination of one value of each dimension.
std::vector<std::string> combinations(const std::vector<std::vector<std::string>>& dimensions) {
  std::vector<std::string> texts = {""};
  for (const std::vector<std::string>& values : dimensions) {
    std::vector<std::string> longer;
    for (const std::string& text : texts) {
      for (const std::string& value : values) longer.push_back(text + (text.empty() ? "" : ",") + value);
    }
    texts = std::move(longer);
  }
  return texts;
}

bool is_supported(const Problem& of) {
  try {
    kernel().check(of);
  } catch (const BadInput&) {
    return false;
  }
  return true;
}

void check_default(const Problem& of, const std::string& architecture) {
  const DeviceLimits limits = limits_of_architecture(architecture);
  const Assignment environment = expression_environment(of, limits);
  const std::optional<Config> config = space().default_config(environment);
  REQUIRE_MESSAGE(config.has_value(), architecture, " ", of.text());
  REQUIRE_MESSAGE(space().why_illegal(*config, environment).empty(), architecture, " ", of.text());
  const Plan plan = kernel().plan(*config, of, limits);
  REQUIRE(plan.launches.front().dynamic_shared <= limits.shared_per_block);
}

// What tells the defaults apart, in one line.
std::string summary(const std::string& architecture, const std::string& text) {
  const DeviceLimits limits = limits_of_architecture(architecture);
  const std::optional<Config> config = space().default_config(expression_environment(problem(text), limits));
  REQUIRE(config);
  std::string line;
  for (const char* name : {"body", "math", "schedule", "tile", "stages", "query", "splits", "combine", "ahead"})
    line += (line.empty() ? "" : " ") + config->at(name).text();
  return line;
}

// A problem, and what matters of its default on Hopper.
const std::pair<const char*, const char*> kPinned[] = {
    {"", "tma mma16 grid 64 2 registers 1 none 1"},
    {"batch=1,q_heads=32", "tma swap grid 64 2 registers 16 kernel 1"},
    {"batch=2,q_heads=32", "tma swap grid 64 2 registers 8 cluster 0"},
    {"batch=4,q_heads=32,context=4096", "tma swap grid 64 2 registers 4 cluster 0"},
    {"batch=1,q_heads=32,kv_dtype=e4m3", "tma swap grid 128 2 shared 16 kernel 1"},
    {"batch=1,kv_heads=4,q_len=4", "tma mma16 grid 128 2 registers 8 kernel 1"},
    {"batch=2,kv_heads=4,q_len=4", "tma wgmma64 grid 128 2 shared 16 kernel 1"},
    {"batch=8,kv_heads=4,q_len=4", "tma wgmma64 grid 128 2 shared 4 kernel 1"},
    {"batch=8,context=4096,q_len=4", "tma wgmma64 grid 128 2 shared 2 cluster 1"},
    {"batch=32,kv_heads=4,context=4096,q_len=4", "tma wgmma64 grid 128 2 shared 1 none 1"},
    {"batch=20,q_heads=32,context=16384,lengths=ragged,page=64", "tma mma16 persistent 128 2 registers 1 last_cta 0"},
    {"batch=20,lengths=ragged,context=2000", "tma mma16 grid 64 2 registers 2 cluster 1"},
    {"batch=9,lengths=ragged,context=2000", "tma mma16 grid 128 2 registers 1 none 1"},
    {"batch=9,lengths=ragged,context=700", "tma mma16 grid 128 2 registers 1 none 0"},
    {"batch=30,lengths=ragged,context=700", "tma mma16 grid 64 2 registers 1 none 1"},
    {"batch=8,lengths=ragged,context=2048", "tma mma16 grid 128 2 registers 2 cluster 1"},
    {"batch=4,lengths=ragged,context=2048", "tma mma16 grid 128 2 registers 4 cluster 0"},
    // Parts by the longest sequence: blocks of equal ones would have it 4 and 2.
    {"batch=3,lengths=ragged,context=32768,page=64", "tma mma16 grid 128 2 registers 16 kernel 1"},
    {"batch=6,lengths=ragged,context=16384,page=64", "tma mma16 grid 128 2 registers 8 kernel 1"},
    // Of no fewer than 960 tokens.
    {"batch=3,lengths=ragged,context=6563,page=64", "tma mma16 grid 128 2 registers 6 kernel 1"},
    {"batch=8,lengths=ragged,context=8192,head_dim=64,page=16", "tma mma16 grid 128 2 registers 6 kernel 1"},
    {"batch=8,lengths=ragged,context=131072,page=64", "tma mma16 persistent 128 2 registers 1 last_cta 0"},
    {"batch=1,q_heads=32,context=32768", "tma swap grid 64 2 registers 16 kernel 1"},
    // As many bytes on their way as an SM can have: larger tiles where it holds one block, more blocks of heads of 64.
    {"batch=1,q_heads=32,context=4096", "tma mma16 grid 128 2 registers 12 kernel 0"},
    {"batch=1,q_heads=32,kv_heads=4,context=8192", "tma mma16 grid 128 2 registers 24 kernel 0"},
    {"batch=1,q_heads=8,kv_heads=1,context=32768", "tma mma16 grid 128 2 registers 96 kernel 1"},
    {"batch=2,q_heads=32,context=1099", "tma mma16 grid 64 2 registers 6 cluster 0"},
    {"batch=9,q_heads=32,kv_heads=4,context=8192", "tma mma16 grid 128 2 registers 3 cluster 0"},
    {"batch=12,q_heads=32,kv_heads=4,context=8192", "tma mma16 grid 128 2 registers 2 cluster 1"},
    {"batch=9,q_heads=64,kv_heads=8,head_dim=64,context=65611", "tma mma16 grid 64 2 registers 4 kernel 1"},
    {"batch=5,q_heads=64,kv_heads=8,head_dim=64,context=8192", "tma mma16 grid 64 2 registers 8 cluster 0"},
    {"batch=16,q_heads=64,kv_heads=8,head_dim=64,context=8192", "tma mma16 grid 128 2 registers 1 none 0"},
    // A wave that a few blocks more would leave almost empty.
    {"batch=67,q_heads=32,kv_heads=4,context=8192", "tma swap grid 64 2 registers 1 none 1"},
    {"batch=67,q_heads=64,kv_heads=4,context=8192", "tma mma16 grid 128 2 registers 2 cluster 1"},
    {"batch=64,q_heads=32,context=128", "tma swap grid 64 2 registers 1 none 0"},
    {"batch=64,q_heads=64,kv_heads=8,head_dim=64,context=128", "tma mma16 grid 64 2 shared 1 none 0"},
    // Drafts of sequences of different lengths.
    {"batch=2,kv_heads=4,q_heads=32,q_len=4,lengths=ragged,context=8192,page=64",
     "tma mma16 grid 128 2 registers 12 kernel 0"},
    {"batch=16,q_heads=32,context=4096", "tma mma16 grid 128 2 registers 1 none 1"},
    {"batch=16,q_heads=64,kv_heads=8,head_dim=64,window=128,page=16", "tma swap grid 256 2 shared 1 none 0"},
    {"batch=16,q_heads=64,kv_heads=8,head_dim=64,window=128,page=64", "mma swap grid 128 2 registers 1 none 0"},
    {"batch=24,q_heads=64,kv_heads=8,head_dim=64,window=128,page=16", "tma mma16 grid 64 2 registers 1 none 0"},
    {"batch=49,q_heads=64,kv_heads=8,head_dim=64,window=128,page=16", "tma mma16 grid 64 2 registers 1 none 0"},
    {"batch=64,q_heads=64,kv_heads=8,head_dim=64,window=128,page=16", "mma swap grid 32 2 registers 1 none 0"},
    {"batch=64,page=1", "mma mma16 grid 64 3 registers 1 none 0"},
    {"batch=11,page=1", "mma mma16 grid 128 3 registers 1 none 0"},
    {"batch=64,head_dim=256", "mma mma16 grid 64 2 shared 1 none 0"},
    // Heads between 64 and 128 values as those of 128; of 192 as of 256.
    {"batch=1,q_heads=32,head_dim=96", "tma swap grid 64 2 registers 16 kernel 1"},
    {"batch=9,lengths=ragged,context=2000,head_dim=80", "tma mma16 grid 128 2 registers 1 none 1"},
    {"batch=1,q_heads=32,kv_dtype=e4m3,head_dim=112", "tma swap grid 128 2 shared 16 kernel 1"},
    {"batch=8,kv_heads=4,q_len=4,head_dim=112", "tma wgmma64 grid 128 2 shared 4 kernel 1"},
    {"batch=64,head_dim=192", "mma mma16 grid 64 2 shared 1 none 0"},
};

}  // namespace

TEST_CASE("every problem has a legal default on every architecture, and it fits the device") {
  const std::vector<std::string> problems = combinations({
      {"batch=1", "batch=9", "batch=256"},
      {"q_heads=1,kv_heads=1", "q_heads=64,kv_heads=8", "q_heads=128,kv_heads=1"},
      {"q_len=1", "q_len=4"},
      {"context=1", "context=300", "context=3000", "context=100000"},
      {"lengths=full", "lengths=ragged"},
      {"page=0", "page=1", "page=64"},
      {"window=0", "window=100"},
      {"kv_dtype=same", "kv_dtype=e4m3"},
      {"head_dim=64", "head_dim=96", "head_dim=128", "head_dim=192", "head_dim=256"},
  });
  std::size_t supported = 0;
  const std::size_t step = kSanitized ? 17 : 1;
  for (std::size_t i = 0; i < problems.size(); i += step) {
    const Problem of = problem(problems[i]);
    if (!is_supported(of)) continue;
    ++supported;
    for (const std::string& architecture : known_architectures()) check_default(of, architecture);
  }
  CHECK(supported > 4000 / step);
}

TEST_CASE("each kind of shape has the default that was made for it on Hopper") {
  for (const auto& [text, line] : kPinned) {
    CAPTURE(text);
    CHECK(summary("sm_90a", text) == line);
  }
}

TEST_CASE("a default has as many parts as fill the device, and fewer where the context is short") {
  CHECK(summary("sm_80", "batch=1,q_heads=32") == "mma mma16 grid 64 2 shared 24 kernel 0");
  CHECK(summary("sm_80", "batch=1,q_heads=32,context=1024") == "mma mma16 grid 64 2 shared 16 kernel 0");
  CHECK(summary("sm_80", "batch=1,q_heads=32,context=300") == "mma mma16 grid 64 2 shared 4 kernel 0");
  CHECK(summary("sm_80", "batch=1,q_heads=32,context=20") == "mma mma16 grid 64 2 shared 1 none 0");
  CHECK(summary("sm_89", "batch=1,q_heads=32") == "mma mma16 grid 32 2 shared 33 kernel 0");
  CHECK(summary("sm_89", "batch=11,page=1") == "mma mma16 grid 32 2 shared 3 kernel 0");
  CHECK(summary("sm_90a", "batch=1,q_heads=32,context=1024") == "tma mma16 grid 128 2 registers 8 cluster 1");
  CHECK(summary("sm_90a", "batch=1,q_heads=32,context=300") == "tma mma16 grid 64 2 registers 4 cluster 0");
  CHECK(summary("sm_90a", "batch=1,q_heads=32,context=20") == "tma mma16 grid 128 2 registers 1 none 0");
}

}  // namespace moetune::decode_attention_defaults_test
