#include "report/importance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "report/kernel_report.h"
#include "search/random.h"

using namespace moetune;

namespace {

Factor levels(const std::string& name, int count, bool ordered = true) {
  Factor factor{.name = name, .ordered = ordered};
  for (int l = 0; l < count; ++l) factor.levels.push_back((ordered ? "" : "v") + std::to_string(l));
  return factor;
}

using Response = std::function<double(const std::vector<Level>&)>;

// Every combination of levels once.
ForestData whole_product(const std::vector<Factor>& factors, const Response& response) {
  ForestData data{.factors = &factors};
  std::vector<Level> row(factors.size(), 0);
  for (;;) {
    data.rows.push_back(row);
    data.response.push_back(response(row));
    std::size_t f = 0;
    while (f < row.size() && ++row[f] == factors[f].levels.size()) row[f++] = 0;
    if (f == row.size()) return data;
  }
}

double share_of(const Importance& importance, std::size_t factor) {
  for (const MainEffect& effect : importance.main) {
    if (effect.factor == factor) return effect.share;
  }
  return -1;
}

double share_of(const Importance& importance, std::size_t a, std::size_t b) {
  for (const Interaction& pair : importance.pairs) {
    if ((pair.first == a && pair.second == b) || (pair.first == b && pair.second == a)) return pair.share;
  }
  return -1;
}

}  // namespace

TEST_CASE("of a sum each factor has the share of its own variance, and no pair has any") {
  const std::vector<Factor> factors = {levels("a", 4), levels("b", 4), levels("c", 4, false), levels("idle", 5)};
  // Variances of 0..3 times a weight: 1.25 w^2. Shares: 9 : 4 : 1 of 14.
  const ForestData data =
      whole_product(factors, [](const std::vector<Level>& row) { return 3.0 * row[0] + 2.0 * row[1] + 1.0 * row[2]; });
  const Importance importance = importance_of(data);
  CHECK(importance.explained > 0.95);
  CHECK(importance.rows == 320);
  CHECK(share_of(importance, 0) == doctest::Approx(9.0 / 14).epsilon(0.06));
  CHECK(share_of(importance, 1) == doctest::Approx(4.0 / 14).epsilon(0.1));
  CHECK(share_of(importance, 2) == doctest::Approx(1.0 / 14).epsilon(0.25));
  CHECK(share_of(importance, 3) < 0.01);
  CHECK(importance.main.front().factor == 0);
  for (const Interaction& pair : importance.pairs) CHECK(pair.share < 0.03);
}

TEST_CASE("what only two factors together decide is their pair's share") {
  const std::vector<Factor> factors = {levels("a", 2), levels("b", 2, false), levels("idle", 8)};
  const ForestData data =
      whole_product(factors, [](const std::vector<Level>& row) { return (row[0] ^ row[1]) != 0 ? 1.0 : -1.0; });
  const Importance importance = importance_of(data);
  // Trees that split by one factor at a time see no gain in the first of the two, so some of it is lost.
  CHECK(importance.pairs.front().share > 0.5);
  CHECK(share_of(importance, 0, 1) == importance.pairs.front().share);
  CHECK(share_of(importance, 0) < 0.12);
  CHECK(share_of(importance, 1) < 0.12);
}

TEST_CASE("a product of two factors has both main effects and their interaction") {
  const std::vector<Factor> factors = {levels("a", 5), levels("b", 5), levels("idle", 4)};
  // (m + x)(m + y) with x, y of variance v = 2 and mean m = 2: m^2 v each, and v^2 together: 8 : 8 : 4.
  const ForestData data =
      whole_product(factors, [](const std::vector<Level>& row) { return static_cast<double>(row[0]) * row[1]; });
  const Importance importance = importance_of(data);
  CHECK(share_of(importance, 0) == doctest::Approx(0.4).epsilon(0.1));
  CHECK(share_of(importance, 1) == doctest::Approx(0.4).epsilon(0.1));
  CHECK(share_of(importance, 0, 1) == doctest::Approx(0.2).epsilon(0.2));
}

TEST_CASE("noise alone is explained by nothing, and a constant has no shares") {
  const std::vector<Factor> factors = {levels("a", 6), levels("b", 6), levels("c", 6)};
  Random random(7);
  const ForestData noise = whole_product(factors, [&](const std::vector<Level>&) { return random.unit(); });
  CHECK(importance_of(noise).explained < 0.1);
  const ForestData same = whole_product(factors, [](const std::vector<Level>&) { return 4.0; });
  for (const MainEffect& effect : importance_of(same).main) CHECK(effect.share == 0);
  CHECK(importance_of(ForestData{.factors = &factors}).rows == 0);
}

TEST_CASE("the leaves of a tree admit every combination once") {
  const std::vector<Factor> factors = {levels("a", 5), levels("b", 7, false), levels("c", 3)};
  Random random(3);
  ForestData data{.factors = &factors};
  for (int i = 0; i < 40; ++i) {
    data.rows.push_back({static_cast<Level>(random.below(5)), static_cast<Level>(random.below(7)),
                         static_cast<Level>(random.below(3))});
    data.response.push_back(random.unit() + data.rows.back()[1]);
  }
  const Forest forest = grow_forest(data);
  const ForestData all = whole_product(factors, [](const std::vector<Level>&) { return 0.0; });
  for (const Tree& tree : forest.trees) {
    for (const std::vector<Level>& row : all.rows) {
      int admitting = 0;
      for (const Leaf& leaf : tree.leaves)
        admitting += leaf.admits[row[0]] && leaf.admits[5 + row[1]] && leaf.admits[12 + row[2]];
      REQUIRE(admitting == 1);
    }
  }
}

TEST_CASE("factors are what most configurations name; others, and absurd ones, are left out") {
  const Factors read = factors_of({"x=10,l=tma", "x=9,l=bulk", "x=9", "rubbish", "", "x=9,l=bulk,y=1", "x=9,x=9"});
  REQUIRE(read.factors.size() == 2);
  CHECK(read.factors[0].name == "x");
  CHECK(read.factors[0].ordered);
  CHECK(read.factors[0].levels == std::vector<std::string>{"9", "10"});
  CHECK(read.factors[1].levels == std::vector<std::string>{"bulk", "tma"});
  CHECK_FALSE(read.factors[1].ordered);
  CHECK(*read.rows[0] == std::vector<Level>{1, 1});
  CHECK(*read.rows[1] == std::vector<Level>{0, 0});
  for (std::size_t i = 2; i < read.rows.size(); ++i) CHECK_FALSE(read.rows[i].has_value());

  std::vector<std::string> many;
  for (std::size_t i = 0; i < kMostLevels + 10; ++i) many.push_back("x=" + std::to_string(i));
  const Factors bounded = factors_of(many);
  CHECK(bounded.factors[0].levels.size() == kMostLevels);
  CHECK_FALSE(bounded.rows.back().has_value());
}

TEST_CASE("what was measured beside others' work, and what has no time, says nothing of parameters") {
  WorkloadReport workload;
  const auto add = [&](int tile, double time_us, bool contended) {
    const std::string config = "tile=" + std::to_string(tile) + ",warps=" + std::to_string(time_us > 30 ? 8 : 4);
    workload.trials.shown.push_back({.config = config, .time_us = time_us, .contended = contended});
  };
  for (int i = 0; i < 24; ++i) add(i % 4, 20 + i, false);
  const ParameterReport report = parameters_of({&workload});
  CHECK(report.trials == 24);
  add(1, 1000, true);
  add(2, 0, false);
  const ParameterReport same = parameters_of({&workload});
  CHECK(same.trials == 24);
  CHECK(same.importance.explained == report.importance.explained);
}
