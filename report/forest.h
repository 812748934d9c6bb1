// A random forest of regression trees over factors (Breiman 2001), grown as leaves of which each knows the levels
// that it admits: what functional ANOVA needs. A pure function of its arguments, the seed included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/factors.h"

namespace moetune {

struct ForestData {
  const std::vector<Factor>* factors = nullptr;
  std::vector<std::vector<Level>> rows;
  std::vector<double> response;
};

struct Leaf {
  double value = 0;
  std::vector<bool> admits;  // by factor and level: a factor's begin at its level_offsets()
};

struct Tree {
  std::vector<Leaf> leaves;  // together they admit every combination of levels once
};

struct Forest {
  std::vector<Tree> trees;
  double explained = 0;  // the share of the variance that trees explain of rows that they have not seen; may be < 0
};

struct ForestOptions {
  std::size_t trees = 32;
  std::size_t least_leaf = 2;      // rows in a leaf
  double tried_factors = 5 / 6.0;  // of those that could split a node, as Hutter et al. have it
  std::uint64_t seed = 1;
};

// For each factor the number of levels of those before it, and that of all at the end.
std::vector<std::size_t> level_offsets(const std::vector<Factor>& factors);

Forest grow_forest(const ForestData& data, const ForestOptions& options = {});

}  // namespace moetune
