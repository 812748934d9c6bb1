#include "kernels/moe/moe_dispatch_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace moetune {
namespace {

constexpr const char* kMoeScaleNames[] = {"none", "group", "token"};
constexpr float kDispatchLargestE4m3 = 448,
                kDispatchLeast = 0x1p-100f;  // templates/moe_dispatch/shape.cuh has both too

}  // namespace

MoeDispatchShape::MoeDispatchShape(const Problem& problem)
    : MoeShape(problem),
      scale(problem.is("out", "bf16")      ? Scale::none
            : problem.is("scale", "group") ? Scale::group
                                           : Scale::token),
      by_columns(problem.is("scale_layout", "column")),
      zero_padding(problem.is("padding", "zeros")) {}

MoeDispatchShape MoeDispatchShape::at(const Extents& extents) const {
  MoeDispatchShape other = *this;
  other.tokens = other.sizes.tokens = extents[0];
  return other;
}

std::int64_t MoeDispatchShape::scale_elements(std::int64_t places) const {
  return groups() * (by_columns ? (places + 3) / 4 * 4 : places);
}

std::int64_t MoeDispatchShape::scale_index(std::int64_t place, std::int64_t group,
                                           std::int64_t places) const {
  return by_columns ? group * ((places + 3) / 4 * 4) + place : place * groups() + group;
}

const ProblemSchema& moe_dispatch_schema() {
  static const ProblemSchema schema = [] {
    ProblemSchema all = moe_schema();
    all.push_back(named_dimension("out", "type of the rows that are written", {"bf16", "e4m3"}));
    all.push_back(named_dimension("scale", "of e4m3: a scale for every 128 values, or for a token",
                                  {"group", "token"}));
    all.push_back(named_dimension(
        "scale_layout",
        "of e4m3: row for [places, groups]; column for [groups, places], each column padded to 16 bytes",
        {"row", "column"}));
    all.push_back(named_dimension(
        "padding", "whether places without a token get zeros (and scales of 1), or stay as they are",
        {"zeros", "none"}));
    return all;
  }();
  return schema;
}

void check_moe_dispatch(const Problem& problem) {
  check_moe("moe_dispatch", problem);
  if (!problem.is("out", "bf16")) return;
  if (!problem.is("scale", "group") || !problem.is("scale_layout", "row"))
    throw BadInput(
        "moe_dispatch: out=bf16 has no scales, so scale and scale_layout must stay at group and row");
}

void check_moe_dispatch_call(const MoeDispatchShape& shape, const Call& call) {
  check_moe_row("moe_dispatch", "x_row", call.integers[kMoeRow], shape.hidden);
  check_moe_places("moe_dispatch", call.integers[kMoePlaces]);
}

const char* moe_scale_name(MoeDispatchShape::Scale scale) { return kMoeScaleNames[static_cast<int>(scale)]; }

HostTensors dispatch_on_cpu(const MoeDispatchShape& shape, const Call& call, const HostTensors& inputs) {
  const std::vector<double>&x = inputs.at("x"), &sorted = inputs.at("sorted");
  const std::int64_t places = call.integers[kMoePlaces], x_row = call.integers[kMoeRow];
  constexpr double kUnwritten = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> rows(static_cast<std::size_t>(places * shape.hidden),
                           shape.zero_padding ? 0 : kUnwritten);
  std::vector<double> scales(static_cast<std::size_t>(shape.scale_elements(places)),
                             shape.zero_padding ? 1 : kUnwritten);
  for (std::int64_t place = 0; place < places; ++place) {
    const auto slot = static_cast<std::int64_t>(sorted[static_cast<std::size_t>(place)]);
    if (slot < 0 || slot >= shape.slots()) continue;
    const double* const from = x.data() + slot / shape.top_k * x_row;
    double* const to = rows.data() + place * shape.hidden;
    if (!shape.narrow()) std::copy_n(from, shape.hidden, to);
    for (std::int64_t group = 0; shape.narrow() && group < shape.groups(); ++group) {
      const std::int64_t first = group * shape.group(), end = std::min(first + shape.group(), shape.hidden);
      float largest = 0;
      for (std::int64_t c = first; c < end; ++c)
        largest = std::max(largest, std::abs(static_cast<float>(from[c])));
      const float scale = largest < kDispatchLeast ? 1 : largest / kDispatchLargestE4m3, inverse = 1 / scale;
      for (std::int64_t c = first; c < end; ++c)
        to[c] = round_to(DType::e4m3, static_cast<float>(from[c]) * inverse);
      scales[static_cast<std::size_t>(shape.scale_index(place, group, places))] = scale;
    }
  }
  HostTensors outputs = {{"rows", std::move(rows)}};
  if (shape.narrow()) outputs["scales"] = std::move(scales);
  return outputs;
}

}  // namespace moetune
