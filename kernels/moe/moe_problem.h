// Problems of moe_dispatch, moe_experts and moe_combine: how many rows of which length, the routing that test inputs
// are made of, the models, and how threads share the rows.
//
// Plain values and pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "kernels/moe/routing.h"

namespace moetune {

struct MoeShape {
  explicit MoeShape(const Problem& problem);

  // The slots of the tokens in the order of their experts, in `places` places: slots behind them are dropped, and
  // padding fills up if there are more than the routing needs.
  RoutingPlan routing(std::int64_t places, std::uint64_t seed) const;

  std::int64_t slots() const { return sizes.slots(); }

  std::int64_t tokens, hidden, top_k;
  RoutingSizes sizes;
  std::string skew;
};

// The first fields of a call, in their order: elements from a token's row to the next's, and the number of places.
enum MoeCallInteger { kMoeRow, kMoePlaces };

// tokens, hidden, experts, top_k, align, capacity and skew.
ProblemSchema moe_schema();
std::vector<Preset> moe_presets();
// Models with their experts' `intermediate`; some as one of several GPUs has them.
std::vector<Preset> moe_experts_presets();
// Throws BadInput, whose message begins with the kernel's name.
void check_moe(const std::string& kernel, const Problem& problem);
// The same of a number of places, and of the elements from one token's row to the next's.
void check_moe_places(const std::string& kernel, std::int64_t places);
void check_moe_row(const std::string& kernel, const char* name, std::int64_t row, std::int64_t hidden);

// Matrices of so many rows, `row` elements apart, in an input that rotates. What lies between is poisoned.
struct MoeMatrices {
  std::int64_t count, rows, columns, row, matrix;  // `matrix`: elements from one to the next

  Buffer buffer(const char* name, DType dtype) const;
};
// The tokens' rows, `row` elements apart.
Buffer moe_x(const MoeShape& shape, DType dtype, std::int64_t row);
Buffer moe_list(const char* name, std::vector<std::int32_t> integers);
// Shares of a token's experts, which add up to nearly one.
Buffer moe_weights(const MoeShape& shape);
// Rows of the output, `row` elements apart.
Buffer moe_out(const MoeShape& shape, DType dtype, std::int64_t row, const Tolerance& tolerance);

// Teams of threads that take rows in turn, and blocks that share a row's columns.
struct MoeTeams {
  explicit MoeTeams(const Config& config);

  // The blocks for so many rows.
  void shape(Launch& launch, std::int64_t rows, const DeviceLimits& limits) const;

  std::int64_t warps, rows_of_block, splits, blocks_per_sm;
};

}  // namespace moetune
