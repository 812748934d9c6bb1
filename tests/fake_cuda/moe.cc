// router, route_plan, moe_dispatch and moe_combine on the host: their CPU references on what the launch's parameters
// point to.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "kernels/registry.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/answers/answers.h"

namespace fake_cuda {
namespace {

using namespace moetune;

// The parameters of each kernel, in the template's order.
const std::map<std::string, std::vector<std::string>> kNames = {
    {"router", {"logits",       "bias",       "expert_map",      "token_count",     "ids",      "weights",
                "counts",       "offsets",    "sorted",          "inverse",         "grouping", "block_counts",
                "router_state", "logits_row", "tokens",          "tokens_of_block", "capacity", "places",
                "scale",        "dropped",    "tokens_per_rank", "in_rank"}},
    {"route_plan",
     {"ids", "expert_map", "token_count", "counts", "offsets", "sorted", "inverse", "grouping", "block_counts",
      "route_plan_state", "map_size", "tokens", "slots_each", "capacity", "places", "dropped"}},
    {"moe_dispatch", {"x", "sorted", "inverse", "rows", "scales", "x_row", "tokens", "places"}},
    {"moe_combine", {"rows", "inverse", "weights", "out", "out_row", "tokens"}},
    {"add_rmsnorm",
     {"x", "residual", "weight", "out", "scales", "residual_out", "static_scale", "x_row", "residual_row", "out_row",
      "residual_out_row", "tokens", "eps"}},
    {"act_mul", {"x", "out", "scales", "x_row", "out_row", "tokens"}},
    {"few_rows_linear", {"x", "weight", "bias", "out", "x_row", "weight_row", "out_row", "tokens"}},
    {"gate_route",
     {"x", "weight", "bias", "correction", "logits", "ids", "weights", "states", "x_row", "weight_row", "tokens",
      "scale"}},
    {"qk_norm_rope",
     {"qkv",
      "q_weight",
      "k_weight",
      "cos",
      "sin",
      "slots",
      "q",
      "k",
      "k_cache",
      "v_cache",
      "k_scale",
      "v_scale",
      "qkv_row",
      "cos_row",
      "sin_row",
      "q_row",
      "q_head",
      "k_row",
      "k_head",
      "k_cache_page",
      "k_cache_slot",
      "k_cache_head",
      "v_cache_page",
      "v_cache_slot",
      "v_cache_head",
      "tokens",
      "eps"}},
};

// One launch: its parameters by name.
struct Launched {
  const std::vector<std::string>& names;
  const Parameters& values;

  const std::uint64_t* find(const std::string& name) const {
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? nullptr : &values[static_cast<std::size_t>(found - names.begin())];
  }
  void* tensor(const std::string& name) const {
    const bool groups = name == "block_experts" || name == "row_experts" || name == "ends";
    const std::uint64_t* found = find(groups ? "grouping" : name);
    if (found == nullptr || *found == 0) throw std::runtime_error("tensor " + name + " was not launched");
    return reinterpret_cast<void*>(*found);
  }
  std::int64_t tokens() const { return static_cast<std::int32_t>(*find("tokens")); }
};

// moe_combine is not passed how many rows there are; it reads those that slots point to.
std::int64_t places_used(const Launched& launched, std::int64_t slots) {
  const auto* inverse = static_cast<const std::int32_t*>(launched.tensor("inverse"));
  return std::max(0, *std::max_element(inverse, inverse + slots)) + 1;
}

Call call_of(const moetune::Kernel& kernel, const Problem& problem, const Launched& launched) {
  const CallSchema& schema = kernel.call_schema();
  Call call;
  for (std::size_t i = 0; i < schema.integers.size(); ++i) {
    const std::string& name = schema.integers[i].name;
    const std::uint64_t* found = launched.find(name);
    call.integers[i] = found == nullptr   ? places_used(launched, problem["tokens"] * problem["top_k"])
                       : name == "places" ? static_cast<std::int32_t>(*found)
                                          : static_cast<std::int64_t>(*found);
  }
  for (std::size_t i = 0; i < schema.reals.size(); ++i) {
    float value = 0;
    std::memcpy(&value, launched.find(schema.reals[i].name), sizeof value);
    call.reals[i] = value;
  }
  return call;
}

}  // namespace

std::vector<double> load_elements(DType type, const void* from, std::int64_t elements) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < (from == nullptr ? 0 : elements); ++i) values.push_back(load_element(type, from, i));
  return values;
}

void store_written(DType type, void* to, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isnan(values[i])) store_element(type, to, static_cast<std::int64_t>(i), round_to(type, values[i]));
}

std::string specialization_of(const char* image) {
  static constexpr std::string_view kMark = "moetune fake cubin of ";
  if (std::strncmp(image, kMark.data(), kMark.size()) != 0) return "";
  const char* const begin = image + kMark.size();
  return std::string(begin, std::strchr(begin, '\n'));
}

bool has_reference(const std::string& name) { return kNames.contains(name); }

std::size_t reference_parameters(const std::string& name) { return kNames.at(name).size(); }

void run_reference(const Kernel& kernel, const Parameters& parameters) {
  const moetune::Kernel& known = find_kernel(kernel.base);
  const Launched launched{kNames.at(kernel.base), parameters};
  const Problem problem = known.parse(kernel.specialization + ",tokens=" + std::to_string(launched.tokens()));
  const Call call = call_of(known, problem, launched);
  const std::vector<Buffer> buffers = known.buffers(problem, call, 0);
  HostTensors inputs;
  for (const Buffer& buffer : buffers)
    if (!buffer.is_written())
      inputs[buffer.name] = load_elements(buffer.dtype, launched.tensor(buffer.name), buffer.elements);
  const HostTensors outputs = answer_on_cpu(problem, call, inputs);
  for (const Buffer& buffer : buffers)  // a caller's cache may be larger than a search's
    if (buffer.is_written()) store_written(buffer.dtype, launched.tensor(buffer.name), outputs.at(buffer.name));
}

}  // namespace fake_cuda
