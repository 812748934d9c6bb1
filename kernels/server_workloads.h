// Turns a model's layers, given as facts, into the families that a server opens: those of the operators that moetune's
// plug-in of the server calls, over the server's own layouts. What each server opens is one table, in the .cc.
// Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/model_workloads.h"

namespace moetune {

struct ServerShape {
  std::string server;
  ServingShape serving;                           // its page is not read
  std::optional<std::int64_t> page;               // tokens a KV page; nullopt: as the server has it
  std::int64_t most_tokens = kMostPrefillTokens;  // new tokens of all sequences in a step
  bool narrow_kv = false;                         // keys and values in e4m3
  std::int64_t drafts = 0;                        // tokens that are drafted for a sequence, and verified in one step
};

std::vector<std::string> server_names();

// Throws BadField: for an unknown server, and for what this one does not take; else as plan_model.
ModelPlan plan_server(const ModelFacts& model, const ServerShape& shape);

}  // namespace moetune
