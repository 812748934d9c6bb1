// `moetune prepare` on a (scripted) GPU: what the runtime opens from a cache, and what is then searched.
#include <algorithm>
#include <filesystem>

#include "tests/cli/tool.h"
#include "tests/paths.h"
#include "tests/runtime/fake_cache.h"

using namespace moetune::testing;
namespace fs = std::filesystem;

namespace {

const std::string kModels = paths::source("tests/workloads/configs/");

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 16, "num_attention_heads": 8,
  "num_key_value_heads": 2, "head_dim": 64, "num_hidden_layers": 2, "intermediate_size": 64,
  "max_position_embeddings": 512, "torch_dtype": "bfloat16"})";

// In place of add_rmsnorm, whose reference no scripted driver computes: kernel `double` of tests/fake_cuda, y = 2x.
void replace_add_rmsnorm(const Tool& tool, const fs::path& data) {
  fs::remove_all(data / "templates/add_rmsnorm");
  fs::create_directories(data / "templates/add_rmsnorm");
  tool.write("data/templates/add_rmsnorm/double.cu", R"(#define ENTRY(name) \
  extern "C" __global__ void name(const float* x, float* y, long long n) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
ENTRY(double__us40)
ENTRY(double__us20)
ENTRY(double__us10)
)");
  tool.write("data/templates/add_rmsnorm/kernel.json", R"({"kernel": "add_rmsnorm", "source": "double.cu",
 "problem": [{"name": "tokens", "default": 64, "range": [1, 16384], "free": true},
             {"name": "hidden", "default": 64, "range": [8, 16384]}],
 "tensors": [{"name": "x", "dtype": "f32", "shape": ["tokens", "hidden"]},
             {"name": "y", "dtype": "f32", "shape": ["tokens", "hidden"], "role": "output", "check": {"terms": 1}}],
 "parameters": [{"name": "way", "values": [0, 1]}],
 "defaults": [{"config": {"way": 0}}],
 "launches": [
   {"when": "way == 0", "entry": "double__us40", "grid": 1, "block": 32, "arguments": ["x", "y", {"i64": "tokens * hidden"}]},
   {"when": "way == 1", "entry": "double__us20", "grid": 1, "block": 32, "arguments": ["x", "y", {"i64": "tokens * hidden"}]}],
 "reference": {"source": "double.cu", "launches": [{"entry": "double__us10", "grid": 1, "block": 32,
                                                    "arguments": ["x", "y", {"i64": "tokens * hidden"}]}]},
 "cost": {"flops": {"f32": "tokens * hidden"}}})");
}

Json family_of(const Json& prepared, const std::string& kernel) {
  for (const Json& family : prepared["families"]) {
    if (family["kernel"] == kernel) return family;
  }
  FAIL("no family of " << kernel);
  return {};
}

}  // namespace

TEST_CASE("prepare opens what is stored as a server does, searches the rest, and the next time nothing is left") {
  Tool tool({{"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", "memory=8388608"}});
  const fs::path data = tool.copy_data();
  replace_add_rmsnorm(tool, data);
  tool.set_environment("MOETUNE_DATA_DIR", data.string());
  tool.write("config.json", kLlama);
  fs::create_directories(tool.path("none"));
  const std::string cache = tool.path("tuned.db").string();
  const auto prepare = [&](std::vector<std::string> more) {
    std::vector<std::string> command = {
        "prepare", tool.path("config.json").string(), "--server", "transformers", "--cache",  cache,
        "--packs", tool.path("none").string(),        "--batch",  "1..4",         "--tokens", "64"};
    command.insert(command.end(), more.begin(), more.end());
    return tool.run(command);
  };
  const Ended empty = prepare({"--dry-run"});
  CAPTURE(empty.err);
  CHECK(empty.code == 4);
  CHECK(contains(empty.out, "7 families: 0 tuned, 0 by defaults, 7 unserved"));
  CHECK_FALSE(fs::exists(cache));

  const std::string heads = ",q_heads=8,kv_heads=2,head_dim=64,rotary_dim=64,tables=bf16,norm=no";
  store(cache, {{.problem = "batch=1,q_heads=8,kv_heads=2,head_dim=64,context=512,page=0"},
                {.problem = "batch=1,q_heads=8,kv_heads=2,head_dim=64,seqlen_q=512,seqlen_kv=512",
                 .config = "",
                 .time_us = 1000,
                 .kernel = "prefill_attention"},
                {.problem = "tokens=64" + heads, .config = "", .kernel = "qk_norm_rope"},
                {.problem = "tokens=4" + heads + ",kv=pages,page=1", .config = "", .kernel = "qk_norm_rope"},
                {.problem = "tokens=1,in=16,out=768", .config = "", .kernel = "few_rows_linear"},
                {.problem = "tokens=1,in=512,out=16", .config = "", .kernel = "few_rows_linear"}});
  const Ended dry = prepare({"--dry-run", "--json"});
  CAPTURE(dry.err);
  CHECK(dry.code == 4);
  const Json before = document(dry);
  CHECK(before["unserved"] == 1);
  for (const char* kernel : {"decode_attention", "prefill_attention", "qk_norm_rope"}) {
    CHECK(family_of(before, kernel)["before"]["serves"] == true);
  }
  CHECK(family_of(before, "add_rmsnorm")["before"]["why"] == "nothing is tuned for it");
  CHECK(contains(prepare({"--dry-run"}).err, "Nothing serves add_rmsnorm hidden=16: nothing is tuned for it"));

  const Ended tuned = prepare({"--budget", "4", "--json"});
  CAPTURE(tuned.err);
  CHECK(tuned.code == 0);
  const Json after = document(tuned);
  CHECK(after["unserved"] == 0);
  CHECK(family_of(after, "add_rmsnorm")["tuning"] == "tuned");
  CHECK(family_of(after, "add_rmsnorm")["after"]["tuned"] == true);
  CHECK(family_of(after, "decode_attention")["tuning"].is_null());

  const Ended again = prepare({});
  CHECK(again.code == 0);
  CHECK(contains(again.out, "7 families: "));
  CHECK(contains(again.out, "0 unserved"));
  CHECK_FALSE(contains(again.out, "add_rmsnorm tokens=1"));  // nothing was tuned
}

TEST_CASE("prepare lists families without a GPU, and refuses what a server does not have") {
  Tool tool;
  const auto prepare = [&](const std::string& model, std::vector<std::string> more) {
    more.insert(more.begin(), {"prepare", kModels + model});
    return tool.run(more);
  };
  const Ended listed = prepare("qwen3-30b-a3b.json", {"--server", "vllm", "--dry-run"});
  CHECK(listed.code == 0);
  CHECK(contains(listed.err, "prepare needs a GPU"));
  CHECK(contains(listed.out, "4 families: what serves them is not known without a GPU"));
  CHECK(prepare("qwen3-30b-a3b.json", {"--server", "vllm"}).code == 3);
  const Ended nothing = prepare("deepseek-v3.json", {"--server", "sglang", "--dry-run"});
  CHECK(nothing.code == 1);
  CHECK(contains(nothing.err, "decode of 61 layers: sglang does not call mla_decode"));
  CHECK(contains(nothing.err, "prefill of 61 layers: attention over a compressed latent (MLA) has no kernel"));
  const auto refused = [&](std::vector<std::string> more) {
    const Ended ended = prepare("qwen3-30b-a3b.json", std::move(more));
    CHECK(ended.code == 2);
    return ended.err;
  };
  CHECK(contains(refused({}), "which server? --server vllm, sglang or transformers"));
  CHECK(contains(refused({"--server", "vlm"}), "did you mean 'vllm'?"));
  CHECK(contains(refused({"--server", "transformers", "--tp", "2"}), "--tp: transformers runs a model on one GPU"));
  CHECK(contains(refused({"--server", "transformers", "--page", "16"}), "--page: transformers has no pages"));
  CHECK(contains(refused({"--server", "sglang", "--kv", "fp8"}), "--kv: sglang keeps keys and values in"));
  CHECK(contains(refused({"--server", "sglang", "--drafts", "3"}), "--drafts: sglang verifies drafts by attention of"));
  CHECK(contains(refused({"--server", "vllm", "--drafts", "8"}), "--drafts"));
  CHECK(contains(refused({"--server", "vllm", "--tp", "3"}), "--tp: tensor parallel 3 does not divide"));
  CHECK(contains(refused({"--server", "vllm", "--ep", "7"}), "--ep: vllm spreads experts over its --tp GPUs"));
  CHECK(contains(refused({"--server", "vllm", "--packs", "/nowhere"}), "--packs: there is no pack and no folder"));
  CHECK(contains(refused({"--server", "vllm", "--device", "replay:shipped"}), "--device"));
  tool.write("config.json", "{\"num_hidden_layers\": -1}");
  CHECK(contains(tool.run({"prepare", tool.path("config.json").string(), "--server", "vllm"}).err, "config.json:1"));
}

TEST_CASE("prepare tunes nothing where the cache cannot be kept") {
  Tool tool({{"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", "memory=8388608"}});
  tool.write("config.json", kLlama);
  tool.write("file", "");
  const Ended unusable = tool.run({"prepare", tool.path("config.json").string(), "--server", "transformers", "--cache",
                                   tool.path("file/tuned.db").string(), "--tokens", "64"});
  CAPTURE(unusable.err);
  CHECK(unusable.code == 3);
  CHECK_FALSE(contains(unusable.out, "add_rmsnorm tokens"));
}

TEST_CASE("prepare lists one shape as it does a range") {
  Tool tool;
  const Ended one = tool.run({"prepare", kModels + "qwen3-30b-a3b.json", "--server", "vllm", "--batch", "8",
                              "--context", "4096", "--dry-run", "--json"});
  CAPTURE(one.err);
  CHECK(one.code == 0);
  const Json listed = document(one);
  CHECK(listed["families"].size() == 4);
  CHECK(listed["unserved"].is_null());  // not known
  CHECK(family_of(listed, "decode_attention")["over"] == "batch=8,kv_heads=4,context=4096");
}

TEST_CASE("prepare names the GPU that is missing, every bad pack, and what changes a server's choice") {
  Tool tool({{"MOETUNE_LIBCUDA", paths::fake_libcuda()}, {"MOETUNE_FAKE_CUDA", "memory=8388608"}});
  tool.write("config.json", kLlama);
  fs::create_directories(tool.path("packs"));
  tool.write("packs/a.pack", "");
  tool.write("packs/b.pack", "");
  const auto listed = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"prepare", tool.path("config.json").string(), "--server", "transformers", "--dry-run", "--json",
                 "--cache", tool.path("none.db").string(), "--packs", tool.path("packs").string()});
    return tool.run(more);
  };
  CHECK(listed({"--device", "cuda:7"}).code == 3);
  CHECK(listed({"--device", "GPU-nope"}).code != 0);
  const Json bad = document(listed({}));
  REQUIRE(bad["warnings"].size() == 2);
  CHECK(contains(bad["warnings"][0], "a.pack is empty"));
  CHECK(contains(bad["warnings"][1], "b.pack is empty"));
  for (const Json& family : bad["families"]) CHECK(family["before"]["why"] == "no cache and no pack can be read");

  store(tool.path("packs/c.db"), {{.problem = "batch=1,q_heads=8,kv_heads=2,head_dim=64,context=512,page=0"}});
  tool.set_environment("MOETUNE_RUNTIME", "default");
  const Json overridden = document(listed({}));
  CHECK(std::ranges::any_of(overridden["warnings"],
                            [](const Json& warning) { return contains(warning, "MOETUNE_RUNTIME is set"); }));
}
