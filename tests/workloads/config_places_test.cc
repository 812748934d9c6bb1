// Contexts, models within models, and documents that are no plain JSON.
#include "base/error.h"
#include "tests/refusal.h"
#include "tests/workloads/read_config.h"

using namespace moetune;
using namespace moetune::testing;

TEST_CASE("contexts that a stretched rotation reaches, and windows beside them") {
  const auto longest = [](const std::string& fields) {
    return parse_model_config(model(R"("model_type": "mixtral", )" + fields), "c.json").facts.longest_context;
  };
  CHECK(longest(R"("rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768})") ==
        131072);
  CHECK(longest(R"("rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 1024})") ==
        65536);
  CHECK(longest(R"("rope_scaling": {"type": "llama3", "factor": 8, "original_max_position_embeddings": 65536})") ==
        65536);
  CHECK(longest(R"("rope_scaling": {"type": "yarn", "factor": 4})") == 65536);
  CHECK(longest(R"("yarn": {"factor": 8, "original_max_position_embeddings": 16384})") == 131072);
  CHECK(longest(R"("rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4,
 "original_max_position_embeddings": 32768}, "sliding_attention": {"rope_type": "default"}})") == 131072);
  check_rules({{R"("model_type": "mixtral", "rope_scaling": {"type": "new"})",
                {"12 decode_attention", "12 router"},
                {"the rope type is not known (got \"new\")"}}});
}

TEST_CASE("the language model of a model of several, and what is beside it") {
  const std::string inner = model(R"("model_type": "qwen3_moe", "norm_topk_prob": true)");
  for (const char* path : {"text_config", "thinker_config", "llm_config", "language_config"}) {
    CAPTURE(path);
    const ReadModel read = lines_of(parse_model_config(
        "{\"model_type\": \"x\", \"" + std::string(path) + "\": " + inner + ", \"vision_config\": " + inner + "}",
        "c.json"));
    check_starts(read.lines, {"12 decode", "12 router", "12 moe_dispatch"});
    check_notes(read.notes, {"other models beside the language model are left out: vision_config", "contexts end at"});
  }
  const ReadModel twice =
      lines_of(parse_model_config("{\"thinker_config\": {\"text_config\": " + inner + "}}", "c.json"));
  check_starts(twice.lines, {"12 decode", "12 router", "12 moe_dispatch"});
  const ReadModel omni = lines_of(parse_model_config(
      "{\"thinker_config\": {\"text_config\": " + inner + "}, \"talker_config\": {\"text_config\": " + inner + "}}",
      "c.json"));
  check_notes(omni.notes, {"are left out: talker_config", "contexts end at"});
  // Without a type of its own it has the outer one's.
  const ReadModel untyped = lines_of(parse_model_config(
      "{\"model_type\": \"qwen3_vl_moe\", \"text_config\": " + model(R"("use_cache": true)") + "}", "c.json"));
  check_starts(untyped.lines, {"12 decode", "12 router experts=64,top_k=6,score=softmax", "12 moe_dispatch"});
}

TEST_CASE("NaN and infinities as Python writes them, a damaged list, and an encoder") {
  const ReadModel odd = lines_of(parse_model_config(
      model(R"("model_type": "mixtral", "a": [0.0, Infinity], "b": -Infinity, "c": NaN, "d": "NaN Infinity \" NaN")"),
      "c.json"));
  check_starts(odd.lines, {"12 decode", "12 router", "12 moe_dispatch"});
  const auto refused = [](const std::string& fields) {
    return refusal_of([&] { parse_model_config(model(fields), "c.json"); });
  };
  CHECK(refused(R"("moe_layers_enum": "4,five")").find("c.json:2: moe_layers_enum must be numbers of layers") == 0);
  CHECK(refused(R"("hybrid_override_pattern": "M*")").find("has 2 letters; num_hidden_layers is 12") !=
        std::string::npos);
  CHECK(refused(R"("per_layer_config": {"99": {}})").find("per_layer_config[99] is no layer of the model") !=
        std::string::npos);
  CHECK(refused(R"("full_attn_idxs": [12])").find("full_attn_idxs[0] must be an integer from 0 to 11") !=
        std::string::npos);
  const ReadModel translator = lines_of(parse_model_config(
      R"({"model_type": "nllb-moe", "is_encoder_decoder": true, "d_model": 2048, "encoder_layers": 24, "decoder_layers": 24,
 "num_hidden_layers": 24, "encoder_sparse_step": 4, "decoder_sparse_step": 4, "num_experts": 128, "moe_topk": 2,
 "encoder_attention_heads": 16})",
      "c.json"));
  check_starts(translator.lines, {"12 moe_dispatch hidden=2048,experts=128,top_k=2"});
  check_notes(translator.notes, {"attention between an encoder and a decoder has no kernel",
                                 "router: experts drop the tokens beyond their capacity"});
}
