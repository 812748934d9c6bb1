// Shows which parameters matter: functional ANOVA over a random forest, as in Hutter, Hoos, Leyton-Brown, "An
// Efficient Approach for Assessing Hyperparameter Importance" (ICML 2014). A tree divides the product of all levels
// into boxes of constant value, so that the mean over all factors but one or two, and with it the share of the
// variance that these cause, is a sum over leaves: exact for the tree. The shares are means over the trees.
//
// Every level of a factor weighs the same, tried often or seldom, and so does every combination, legal or not: there
// the trees say what they learnt nearby. `explained` tells how far they are to be believed.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/forest.h"

namespace moetune {

struct MainEffect {
  std::size_t factor = 0;
  double share = 0;              // of the variance
  std::vector<double> by_level;  // the mean response at each level
};

struct Interaction {
  std::size_t first = 0, second = 0;
  double share = 0;  // of the variance, beyond both main effects
};

struct Importance {
  std::vector<MainEffect> main;    // largest share first; factors with one level are left out
  std::vector<Interaction> pairs;  // largest share first
  double explained = 0;            // of rows that a tree has not seen (Forest::explained)
  std::size_t rows = 0;
};

Importance importance_of(const ForestData& data, const ForestOptions& options = {});
Importance importance_of(const Forest& forest, const std::vector<Factor>& factors);

}  // namespace moetune
