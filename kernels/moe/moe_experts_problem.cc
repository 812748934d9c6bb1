#include "kernels/moe/moe_experts_problem.h"

#include "base/error.h"
#include "base/integers.h"

namespace moetune {
namespace {

constexpr std::int64_t kUnit = 8;      // values of 16 bytes
constexpr std::int64_t kMxGroup = 32;  // values of K that share a scale in mxfp4
constexpr std::int64_t kMostExpertStride = std::int64_t{1}
                                           << 38;  // elements; bytes of a tensor map's stride are 40 bits

[[noreturn]] void refuse_experts(const std::string& rule) { throw BadInput("moe_experts: " + rule); }

void check_operand_row(const MoeExpertsShape& shape, const char* name, std::int64_t row, std::int64_t columns) {
  check_moe_row("moe_experts", name, row, columns);
  if (row % shape.unit() != 0)
    refuse_experts(std::string(name) + "=" + std::to_string(row) + " must be a multiple of " +
                   std::to_string(shape.unit()));
}

void check_matrix(const MoeExpertsShape& shape, const char* name, std::int64_t row, std::int64_t expert,
                  const MoeExpertsShape::Matrix& matrix) {
  check_operand_row(shape, (std::string(name) + "_row").c_str(), row, matrix.columns);
  if (expert < (matrix.rows - 1) * row + matrix.columns || expert > kMostExpertStride || expert % shape.unit() != 0)
    refuse_experts(std::string(name) + "_expert=" + std::to_string(expert) + " must be a multiple of " +
                   std::to_string(shape.unit()) + " that holds an expert's " + std::to_string(matrix.rows) + " rows");
}

void check_no_gaps(bool places, const char* name, std::int64_t row, std::int64_t width) {
  if (places && row != width)
    refuse_experts(std::string(name) + "=" + std::to_string(row) + " must be " + std::to_string(width) +
                   ": rows of places lie without gaps");
}

}  // namespace

MoeExpertsShape::MoeExpertsShape(const Problem& problem)
    : MoeShape(problem),
      intermediate(problem["intermediate"]),
      dtype(problem.is("dtype", "bf16") ? DType::bf16 : DType::f16),
      operand(problem.is("w", "e4m3") ? DType::e4m3 : dtype),
      packed(problem.is("w", "mxfp4")),
      biased(problem.is("activation", "swigluoai")),
      part(problem.is("part", "up")     ? Part::up
           : problem.is("part", "down") ? Part::down
                                        : Part::whole),
      x_places(problem.is("x", "places")),
      out_places(problem.is("out", "places")),
      n_major(problem.is("layout", "n_major")) {}

std::int64_t MoeExpertsShape::packed_values(std::int64_t rows, std::int64_t columns) const {
  return experts() * (rows / kPackedRows) * ceil_div(columns, kPackedDepth) * kPackedValueBytes;
}

std::int64_t MoeExpertsShape::packed_scales(std::int64_t rows, std::int64_t columns) const {
  return packed_values(rows, columns) / kPackedValueBytes * kPackedScaleBytes;
}

std::int64_t MoeExpertsShape::most_places() const {
  return RoutingSizes{.tokens = tokens, .experts = experts(), .top_k = top_k, .align = kMostExpertsAlign}.places();
}

MoeExpertsShape MoeExpertsShape::at(const Extents& extents) const {
  MoeExpertsShape other = *this;
  other.tokens = other.sizes.tokens = extents[0];
  return other;
}

const ProblemSchema& moe_experts_schema() {
  static const ProblemSchema schema = [] {
    ProblemSchema all = moe_schema();
    all.push_back(
        integer_dimension("intermediate", "values of a token within an expert, a multiple of 8", 256, 8, 32768));
    all.push_back(named_dimension("dtype", "type of the output, and of rows and weights", {"bf16", "fp16"}));
    all.push_back(named_dimension(
        "w",
        "type of rows and weights: dtype; e4m3 with a scale for 128 values of a row and 128x128 weights; or of weights "
        "alone, mxfp4",
        {"same", "e4m3", "mxfp4"}));
    all.push_back(named_dimension(
        "activation", "silu: of gate, times up; swigluoai: gpt-oss', with biases, and rows of gate and up in turn",
        {"silu", "swigluoai"}));
    all.push_back(named_dimension(
        "part", "whole: both products; up: gate and up with the activation alone; down: the other alone",
        {"whole", "up", "down"}));
    all.push_back(named_dimension(
        "x", "rows of x: those of tokens, which sorted gathers, or of places, as moe_dispatch writes them",
        {"tokens", "places"}));
    all.push_back(named_dimension("out", "rows of the output: a token's sum over its experts, or one for each place",
                                  {"tokens", "places"}));
    all.push_back(named_dimension(
        "layout", "of an expert's weights: k_major for [N, K]; n_major for [K, N], as transformers' gpt-oss has them",
        {"k_major", "n_major"}));
    return all;
  }();
  return schema;
}

Call contiguous_experts_call(const MoeExpertsShape& shape) {
  Call call;
  call.integers[kMoeRow] = shape.x_width();
  call.integers[kExpertsOutRow] = shape.out_width();
  call.integers[kExpertsUpRow] = shape.gate_up().columns;
  call.integers[kExpertsUpExpert] = 2 * shape.intermediate * shape.hidden;
  call.integers[kExpertsDownRow] = shape.down().columns;
  call.integers[kExpertsDownExpert] = shape.intermediate * shape.hidden;
  return call;
}

void check_moe_experts(const Problem& problem) {
  check_moe("moe_experts", problem);
  if (problem["intermediate"] % kUnit != 0)
    refuse_experts("intermediate=" + problem.dims.at("intermediate").text() + " is no multiple of 8");
  if (problem["align"] > kMostExpertsAlign)
    refuse_experts("align=" + problem.dims.at("align").text() + " is more than " + std::to_string(kMostExpertsAlign));
  if (problem.is("part", "up") && !problem.is("out", "places"))
    refuse_experts("part=up writes a row for each place: it needs out=places");
  if (problem.is("part", "down") && !problem.is("x", "places"))
    refuse_experts("part=down reads a row for each place: it needs x=places");
  if (problem.is("w", "same")) return;
  if (problem.is("layout", "n_major")) refuse_experts("layout=n_major is for 16-bit weights: it needs w=same");
  const bool packed = problem.is("w", "mxfp4");
  const std::int64_t group = packed ? kMxGroup : kExpertsScaleGroup;
  for (const char* name : {"hidden", "intermediate"}) {
    if (problem[name] % group != 0)
      refuse_experts("w=" + problem.dims.at("w").text() + " needs whole groups of scales: " + name + "=" +
                     problem.dims.at(name).text() + " is no multiple of " + std::to_string(group));
  }
  if (packed && !problem.is("dtype", "bf16")) refuse_experts("w=mxfp4 needs dtype=bf16");
  if (!packed && problem.is("activation", "swigluoai")) refuse_experts("activation=swigluoai is not for w=e4m3");
}

void check_moe_experts_call(const MoeExpertsShape& shape, const Call& call) {
  const auto& of = call.integers;
  check_operand_row(shape, "x_row", of[kMoeRow], shape.x_width());
  check_moe_row("moe_experts", "out_row", of[kExpertsOutRow], shape.out_width());
  check_no_gaps(shape.x_places, "x_row", of[kMoeRow], shape.x_width());
  check_no_gaps(shape.out_places, "out_row", of[kExpertsOutRow], shape.out_width());
  check_moe_places("moe_experts", of[kMoePlaces]);
  if (of[kMoePlaces] > shape.most_places())
    refuse_experts("places=" + std::to_string(of[kMoePlaces]) + " is more than " + std::to_string(shape.most_places()) +
                   ", the most of so many tokens with segments at multiples of " + std::to_string(kMostExpertsAlign));
  if (shape.packed) return;  // without strides
  check_matrix(shape, "up", of[kExpertsUpRow], of[kExpertsUpExpert], shape.gate_up());
  check_matrix(shape, "down", of[kExpertsDownRow], of[kExpertsDownExpert], shape.down());
}

}  // namespace moetune
