// The fields of a model's configuration under every name that publishers give them: num_hidden_layers, n_layers, …
// Refers into the LocatedJson that its place is of. Immutable; thread-safe. Errors: BadInput that names file, line and
// key for a value of the wrong type or size; NotUnderstood for one that may be right but is not known here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/located_json.h"

namespace moetune {

inline constexpr std::int64_t kMostModelLayers = 10'000, kMostModelExtent = std::int64_t{1} << 30;

// Why a part of the model is left out: what the configuration says of it is not understood.
struct NotUnderstood {
  std::string why;
};

enum class Fact {
  layers,
  hidden,
  q_heads,
  kv_heads,
  head_dim,
  value_dim,
  latent,  // elements of a compressed latent
  context,
  window,
  experts,
  zero_experts,  // that give a token back
  top_k,
  groups,
  groups_kept,
  expert_width,  // values of a token within an expert
  width,         // the same of a layer without experts, or of those of some families
  activation,
  moved,  // values of a token where its experts take it, if not the hidden size
  scoring,
  logits,  // their type
  renormalize,
  bias,
  uses_experts,  // false: the experts are of another size of the model
  first_sparse,  // the layers before it are dense
  last_sparse
};

class ModelFields {
 public:
  explicit ModelFields(JsonPlace object) : object_(std::move(object)) {}

  const JsonPlace& object() const { return object_; }

  // `path` has dots between the keys. A value of null, or an empty list, counts as absent.
  std::optional<JsonPlace> find(std::string_view path) const;
  // Under the first of its names. Throws NotUnderstood if two of its names have different values.
  std::optional<JsonPlace> find(Fact fact) const;
  // A list of equal numbers, which are those of each layer or kind of token, counts as one of them.
  std::optional<std::int64_t> number(std::string_view path, std::int64_t least = 0) const;
  std::optional<std::int64_t> number(Fact fact, std::int64_t least = 0) const;
  std::int64_t needed(Fact fact) const;  // at least 1
  // One number a layer.
  std::optional<std::vector<std::int64_t>> of_layers(Fact fact, std::int64_t layers, std::int64_t least) const;
  std::optional<std::string> text(Fact fact) const;
  std::optional<bool> flag(std::string_view path) const;  // 0 and 1 count as well
  std::optional<bool> flag(Fact fact) const;

  // The list's elements; layers that only guess further tokens ahead, which stand at its end, are left out.
  std::vector<JsonPlace> layer_list(const JsonPlace& list, std::int64_t layers) const;

 private:
  JsonPlace object_;
};

// Whether `name` is one of the names of a fact.
bool is_fact_name(std::string_view name);

}  // namespace moetune
