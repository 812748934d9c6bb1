// Reads a configuration and compares what is made of it.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "workloads/model_config.h"

namespace moetune::testing {

struct ReadModel {
  std::vector<std::string> lines, notes;
};

// "LAYERS KERNEL PROBLEM", with the context's end for attention. Without moe_experts, of which expert_products_test.cc
// asks.
inline ReadModel lines_of(const ModelConfig& config, const ServingShape& serving = {}) {
  const ModelPlan plan = plan_model(config.facts, serving);
  ReadModel read{{}, config.notes};
  read.notes.insert(read.notes.end(), plan.notes.begin(), plan.notes.end());
  std::erase_if(read.notes, [](const std::string& note) { return note.starts_with("moe_experts: "); });
  for (const ModelWorkload& one : plan.workloads) {
    if (one.kernel == "prefill_attention" || one.kernel == "moe_combine" || one.kernel == "moe_experts") continue;
    std::string line = std::to_string(static_cast<std::int64_t>(one.weight)) + " " + one.kernel + " " + one.problem;
    if (one.kernel == "decode_attention" || one.kernel == "mla_decode")
      line += " to " + std::to_string(one.ranges[1].last);
    read.lines.push_back(line);
  }
  return read;
}

// Every note has one of the parts, and every part is in a note.
inline void check_notes(const std::vector<std::string>& notes, const std::vector<std::string>& parts) {
  for (const std::string& note : notes) {
    CAPTURE(note);
    CHECK(std::any_of(parts.begin(), parts.end(),
                      [&](const std::string& part) { return note.find(part) != std::string::npos; }));
  }
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(std::any_of(notes.begin(), notes.end(),
                      [&](const std::string& note) { return note.find(part) != std::string::npos; }));
  }
}

// What a family's published values look like, but for layers: heads, sizes, contexts.
inline std::string model(const std::string& fields) {
  return R"({"num_hidden_layers": 12, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 4,
 "head_dim": 128, "max_position_embeddings": 65536, "num_experts": 64, "num_experts_per_tok": 6, )" +
         fields + "}";
}

struct FieldRule {
  std::string fields;
  std::vector<std::string> lines;  // the first words: "4 decode", "8 router experts=64,…"
  std::vector<std::string> notes;
};

// Each of `starts` begins a line, and the other way round.
inline void check_starts(const std::vector<std::string>& lines, const std::vector<std::string>& starts) {
  CAPTURE(lines);
  REQUIRE(lines.size() == starts.size());
  for (std::size_t i = 0; i < lines.size(); ++i) CHECK(lines[i].starts_with(starts[i]));
}

inline void check_rules(const std::vector<FieldRule>& rules) {
  for (const FieldRule& rule : rules) {
    CAPTURE(rule.fields);
    ReadModel read = lines_of(parse_model_config(model(rule.fields), "c.json"));
    std::erase_if(read.lines, [](const std::string& line) { return line.find(" moe_dispatch ") != std::string::npos; });
    std::erase_if(read.notes, [](const std::string& note) { return note.starts_with("contexts end at"); });
    check_starts(read.lines, rule.lines);
    check_notes(read.notes, rule.notes);
  }
}

}  // namespace moetune::testing
