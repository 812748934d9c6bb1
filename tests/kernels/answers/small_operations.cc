// The small operations of a model's step in float64.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "kernels/registry.h"
#include "tests/kernels/answers/answers.h"

namespace moetune {
namespace {

std::int64_t field(const Problem& problem, const Call& call, std::string_view name) {
  const auto& fields = find_kernel(problem.kernel).call_schema().integers;
  const auto found = std::ranges::find(fields, name, &CallField::name);
  return call.integers.at(static_cast<std::size_t>(found - fields.begin()));
}

// The rows of a matrix whose rows may lie apart.
struct Rows {
  Rows(std::int64_t tokens, std::int64_t width, std::int64_t row)
      : stride(row), values(static_cast<std::size_t>((tokens - 1) * row + width), kUnwritten) {}

  double& at(std::int64_t token, std::int64_t column) {
    return values[static_cast<std::size_t>(token * stride + column)];
  }

  std::int64_t stride;
  std::vector<double> values;
};

// templates/common/quantize.cuh has both too.
constexpr double kLargestE4m3 = 448, kLeastMagnitude = 0x1p-100;

double e4m3_scale(double largest) { return largest < kLeastMagnitude ? 1 : largest / kLargestE4m3; }

// Divides a row's values by their scales, and returns these: one for so many values. They are not rounded.
std::vector<double> scale_row(std::vector<double>& values, std::int64_t group) {
  std::vector<double> scales;
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(group)) {
    const std::size_t end = std::min(begin + static_cast<std::size_t>(group), values.size());
    double largest = 0;
    for (std::size_t c = begin; c < end; ++c) largest = std::max(largest, std::abs(values[c]));
    scales.push_back(e4m3_scale(largest));
    for (std::size_t c = begin; c < end; ++c) values[c] /= scales.back();
  }
  return scales;
}

}  // namespace

HostTensors act_mul_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  const std::int64_t tokens = problem["tokens"], width = problem["intermediate"], x_row = field(problem, call, "x_row");
  const bool in_turn = problem.is("gate_up", "in_turn"), clamped = problem.is("activation", "swigluoai");
  Rows out(tokens, width, field(problem, call, "out_row"));
  std::vector<double> scales, values(static_cast<std::size_t>(width));
  for (std::int64_t token = 0; token < tokens; ++token) {
    const double* const row = inputs.at("x").data() + token * x_row;
    for (std::int64_t c = 0; c < width; ++c) {
      double gate = row[in_turn ? 2 * c : c], up = row[in_turn ? 2 * c + 1 : width + c];
      if (clamped) {
        gate = std::min(gate, 7.0);
        up = std::clamp(up, -7.0, 7.0) + 1;
      }
      values[static_cast<std::size_t>(c)] = gate / (1 + std::exp((clamped ? -1.702 : -1.0) * gate)) * up;
    }
    if (problem.is("out", "e4m3")) std::ranges::copy(scale_row(values, 128), std::back_inserter(scales));
    for (std::int64_t c = 0; c < width; ++c) out.at(token, c) = values[static_cast<std::size_t>(c)];
  }
  HostTensors outputs = {{"out", std::move(out.values)}};
  if (!scales.empty()) outputs["scales"] = std::move(scales);
  return outputs;
}

HostTensors add_rmsnorm_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  const std::int64_t tokens = problem["tokens"], hidden = problem["hidden"];
  const bool adds = problem.is("residual", "yes"), narrow = problem.is("out", "e4m3"),
             is_static = problem.is("scale", "static");
  const std::int64_t x_row = field(problem, call, "x_row"), residual_row = field(problem, call, "residual_row");
  Rows out(tokens, hidden, field(problem, call, "out_row")),
      sums(tokens, hidden, field(problem, call, "residual_out_row"));
  std::vector<double> scales, values(static_cast<std::size_t>(hidden));
  for (std::int64_t token = 0; token < tokens; ++token) {
    double squares = 0;
    for (std::int64_t c = 0; c < hidden; ++c) {
      double& h = values[static_cast<std::size_t>(c)];
      h = inputs.at("x")[static_cast<std::size_t>(token * x_row + c)];
      if (adds) {
        const double other = inputs.at("residual")[static_cast<std::size_t>(token * residual_row + c)];
        const DType type = problem.is("dtype", "bf16") ? DType::bf16 : DType::f16;
        h = round_to(type, static_cast<float>(h) + static_cast<float>(other));
        sums.at(token, c) = h;
      }
      squares += h * h;
    }
    const double factor = 1 / std::sqrt(squares / static_cast<double>(hidden) + call.reals[0]);
    for (std::int64_t c = 0; c < hidden; ++c)
      values[static_cast<std::size_t>(c)] *=
          factor * (inputs.at("weight")[static_cast<std::size_t>(c)] + (problem.is("weight", "plus_one") ? 1 : 0));
    if (is_static)
      for (double& value : values) value = std::clamp(value / inputs.at("static_scale")[0], -448.0, 448.0);
    else if (narrow)
      std::ranges::copy(scale_row(values, problem.is("scale", "token") ? hidden : 128), std::back_inserter(scales));
    for (std::int64_t c = 0; c < hidden; ++c) out.at(token, c) = values[static_cast<std::size_t>(c)];
  }
  HostTensors outputs = {{"out", std::move(out.values)}};
  if (narrow && !is_static) outputs["scales"] = std::move(scales);
  if (adds) outputs["residual_out"] = std::move(sums.values);
  return outputs;
}

HostTensors few_rows_linear_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  const std::int64_t tokens = problem["tokens"], in = problem["in"], width = problem["out"],
                     x_row = field(problem, call, "x_row"), weight_row = field(problem, call, "weight_row");
  Rows out(tokens, width, field(problem, call, "out_row"));
  for (std::int64_t token = 0; token < tokens; ++token) {
    const double* const x = inputs.at("x").data() + token * x_row;
    for (std::int64_t row = 0; row < width; ++row) {
      const double* const weight = inputs.at("weight").data() + row * weight_row;
      double& sum = out.at(token, row);
      sum = problem.is("bias", "yes") ? inputs.at("bias")[static_cast<std::size_t>(row)] : 0;
      for (std::int64_t c = 0; c < in; ++c) sum += x[c] * weight[c];
    }
  }
  return {{"out", std::move(out.values)}};
}

HostTensors gate_route_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  const std::int64_t tokens = problem["tokens"], hidden = problem["hidden"], experts = problem["experts"],
                     x_row = field(problem, call, "x_row"), weight_row = field(problem, call, "weight_row");
  std::vector<double> logits;
  for (std::int64_t token = 0; token < tokens; ++token) {
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      double sum = problem.is("gate_bias", "yes") ? inputs.at("bias")[static_cast<std::size_t>(expert)] : 0;
      for (std::int64_t c = 0; c < hidden; ++c)
        sum += inputs.at("x")[static_cast<std::size_t>(token * x_row + c)] *
               inputs.at("weight")[static_cast<std::size_t>(expert * weight_row + c)];
      logits.push_back(round_to(dtype_from_name(problem.dims.at("logits").text()), sum));
    }
  }
  std::string text = "outputs=weights,dtype=fp32";
  for (const char* const name :
       {"tokens", "experts", "top_k", "score", "bias", "groups", "groups_kept", "renormalize", "ids"})
    text += std::string(",") + name + "=" + problem.dims.at(name).text();
  const Kernel& router = find_kernel("router");
  const Problem routing = router.parse(text);
  Call routed = router.default_call(routing);
  routed.reals[0] = call.reals[0];
  HostTensors logits_and_bias = {{"logits", logits}};
  if (problem.is("bias", "correction")) logits_and_bias["bias"] = inputs.at("correction");
  HostTensors outputs = route_on_cpu(routing, routed, logits_and_bias);
  outputs["logits"] = std::move(logits);
  return outputs;
}

namespace {

// Heads that lie at strides of the call; where nothing is written is kUnwritten.
class Heads {
 public:
  // `name`_row, or `name`_page and `name`_slot; and `name`_head.
  Heads(const Problem& problem, const Call& call, const std::string& name)
      : page_(name.ends_with("cache") ? problem["page"] : 1),
        outer_(field(problem, call, name + (page_ == 1 && !name.ends_with("cache") ? "_row" : "_page"))),
        slot_(name.ends_with("cache") ? field(problem, call, name + "_slot") : 0),
        head_(field(problem, call, name + "_head")) {}

  double& at(std::int64_t row, std::int64_t head, std::int64_t column) {
    const auto place = static_cast<std::size_t>(row / page_ * outer_ + row % page_ * slot_ + head * head_ + column);
    if (place >= values.size()) values.resize(place + 1, kUnwritten);
    return values[place];
  }
  // As many elements as a buffer has.
  void extend(std::size_t elements) {
    if (values.size() < elements) values.resize(elements, kUnwritten);
  }

  std::vector<double> values;

 private:
  std::int64_t page_, outer_, slot_, head_;
};

}  // namespace

HostTensors qk_norm_rope_on_cpu(const Problem& problem, const Call& call, const HostTensors& inputs) {
  const std::int64_t q_heads = problem["q_heads"], kv_heads = problem["kv_heads"], dim = problem["head_dim"],
                     rotary = problem["rotary_dim"];
  const bool paged = problem.is("kv", "pages"), normed = problem.is("norm", "yes"),
             neighbors = problem.is("pairs", "neighbors");
  const std::int64_t qkv_row = field(problem, call, "qkv_row"), cos_row = field(problem, call, "cos_row"),
                     sin_row = field(problem, call, "sin_row");
  std::map<std::string, Heads> outputs;
  for (const Buffer& buffer : find_kernel(problem.kernel).buffers(problem, call, 0))
    if (buffer.is_written())
      outputs.emplace(buffer.name, Heads(problem, call, buffer.name))
          .first->second.extend(static_cast<std::size_t>(buffer.elements));
  const auto number = [&](const char* tensor, std::int64_t at) {
    return inputs.at(tensor)[static_cast<std::size_t>(at)];
  };
  for (std::int64_t token = 0; token < problem["tokens"]; ++token) {
    const std::int64_t place = paged ? static_cast<std::int64_t>(number("slots", token)) : token;
    for (std::int64_t head = 0; head < q_heads + (paged ? 2 : 1) * kv_heads; ++head) {
      const bool is_query = head < q_heads, is_value = head >= q_heads + kv_heads;
      if (!is_query && place < 0) continue;
      std::vector<double> values;
      for (std::int64_t c = 0; c < dim; ++c) values.push_back(number("qkv", token * qkv_row + head * dim + c));
      double squares = 0;
      for (const double value : values) squares += value * value;
      const double factor = 1 / std::sqrt(squares / static_cast<double>(dim) + call.reals[0]);
      for (std::int64_t c = 0; normed && !is_value && c < dim; ++c)
        values[static_cast<std::size_t>(c)] *= factor * number(is_query ? "q_weight" : "k_weight", c);
      for (std::int64_t i = 0; !is_value && i < rotary / 2; ++i) {
        double& x = values[static_cast<std::size_t>(neighbors ? 2 * i : i)];
        double& y = values[static_cast<std::size_t>(neighbors ? 2 * i + 1 : i + rotary / 2)];
        const double cosine = number("cos", token * cos_row + i), sine = number("sin", token * sin_row + i),
                     turned = x * cosine - y * sine;
        y = y * cosine + x * sine;
        x = turned;
      }
      Heads& to = outputs.at(is_query ? "q" : !paged ? "k" : is_value ? "v_cache" : "k_cache");
      const std::int64_t own = is_query ? head : (head - q_heads) % kv_heads;
      if (!is_query && problem.is("kv_dtype", "e4m3")) {
        const auto scale =
            static_cast<float>(number(is_value ? "v_scale" : "k_scale", problem.is("kv_scale", "head") ? own : 0));
        for (double& value : values) value = round_to(DType::e4m3, static_cast<float>(value) * (1 / scale));
      }
      for (std::int64_t c = 0; c < dim; ++c)
        to.at(is_query ? token : place, own, c) = values[static_cast<std::size_t>(c)];
    }
  }
  HostTensors made;
  for (auto& [name, heads] : outputs) made[name] = std::move(heads.values);
  return made;
}

}  // namespace moetune
