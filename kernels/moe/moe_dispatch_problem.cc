#include "kernels/moe/moe_dispatch_problem.h"

#include "base/error.h"

namespace moetune {
namespace {

constexpr const char* kMoeScaleNames[] = {"none", "group", "token"};

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

std::int64_t MoeDispatchShape::scale_index(std::int64_t place, std::int64_t group, std::int64_t places) const {
  return by_columns ? group * ((places + 3) / 4 * 4) + place : place * groups() + group;
}

const ProblemSchema& moe_dispatch_schema() {
  static const ProblemSchema schema = [] {
    ProblemSchema all = moe_schema();
    all.push_back(named_dimension("out", "type of the rows that are written", {"bf16", "e4m3"}));
    all.push_back(
        named_dimension("scale", "of e4m3: a scale for every 128 values, or for a token", {"group", "token"}));
    all.push_back(named_dimension(
        "scale_layout",
        "of e4m3: row for [places, groups]; column for [groups, places], each column padded to 16 bytes",
        {"row", "column"}));
    all.push_back(named_dimension("padding",
                                  "whether places without a token get zeros (and scales of 1), or stay as they are",
                                  {"zeros", "none"}));
    return all;
  }();
  return schema;
}

void check_moe_dispatch(const Problem& problem) {
  check_moe("moe_dispatch", problem);
  if (!problem.is("out", "bf16")) return;
  if (!problem.is("scale", "group") || !problem.is("scale_layout", "row"))
    throw BadInput("moe_dispatch: out=bf16 has no scales, so scale and scale_layout must stay at group and row");
}

void check_moe_dispatch_call(const MoeDispatchShape& shape, const Call& call) {
  check_moe_row("moe_dispatch", "x_row", call.integers[kMoeRow], shape.hidden);
  check_moe_places("moe_dispatch", call.integers[kMoePlaces]);
}

const char* moe_scale_name(MoeDispatchShape::Scale scale) { return kMoeScaleNames[static_cast<int>(scale)]; }

}  // namespace moetune
