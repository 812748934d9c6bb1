#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cholesky.h"
#include "search/random.h"
#include "search/strategies/candidate_pool.h"
#include "search/strategies/evidence.h"
#include "search/strategies/posterior.h"
#include "search/strategies/thinning.h"
#include "tests/search/mixed_space.h"
#include "tests/search/simulation.h"

using namespace moetune;

namespace {

std::vector<Position> rows_at(const LegalSpace& space, const std::vector<ConfigId>& ids) {
  const Encoding encoding(space);
  std::vector<Position> rows;
  for (const ConfigId id : ids) encoding.append(space, id, rows);
  return rows;
}

// Mean and relative variance at every configuration, by solving the whole system once a configuration.
void check_against_dense(const LegalSpace& space, const ProductKernel& kernel, const Posterior& posterior,
                         const std::vector<ConfigId>& ids, const std::vector<double>& values) {
  const std::vector<Position> rows = rows_at(space, ids);
  const std::size_t n = ids.size();
  const std::size_t axes = kernel.axis_count();
  std::vector<double> factor(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) factor[i * n + j] = kernel(&rows[i * axes], &rows[j * axes]);
    factor[i * n + i] += kernel.noise() + 1e-6;
  }
  REQUIRE(factor_cholesky(factor, n));
  const std::vector<double> inverse = invert_factor(factor, n);  // row j holds column j
  std::vector<ConfigId> everything(space.size());
  for (ConfigId id = 0; id < everything.size(); ++id) everything[id] = id;
  const std::vector<Position> pool = rows_at(space, everything);
  std::vector<double> whitened(n, 0.0);
  double signal = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) whitened[i] += inverse[j * n + i] * values[j];
    signal += whitened[i] * whitened[i] / static_cast<double>(n);
  }
  for (ConfigId id = 0; id < space.size(); ++id) {
    double mean = 0;
    double variance = 1;
    for (std::size_t i = 0; i < n; ++i) {
      double solved = 0;
      for (std::size_t j = 0; j <= i; ++j) solved += inverse[j * n + i] * kernel(&pool[id * axes], &rows[j * axes]);
      mean += solved * whitened[i];
      variance -= solved * solved;
    }
    CHECK(posterior.mean(id) == doctest::Approx(mean).epsilon(1e-3).scale(1));
    CHECK(posterior.deviation(id) ==
          doctest::Approx(std::sqrt(signal * std::max(variance, 1e-6))).epsilon(0.02).scale(0.1));
  }
}

}  // namespace

TEST_CASE("the incremental posterior is the one that solving the whole system gives, in any order of telling") {
  const LegalSpace space = mixed_space();
  ProductKernel kernel(Encoding(space).axes());
  kernel.tabulate(false);
  const std::vector<ConfigId> ids = some_ids(space, 40, 3);
  std::vector<double> values;
  for (const ConfigId id : ids) values.push_back(std::sin(0.1 * id));

  std::vector<ConfigId> everything(space.size());
  for (ConfigId id = 0; id < everything.size(); ++id) everything[id] = id;
  Posterior posterior(kernel, rows_at(space, everything));
  posterior.add_open(rows_at(space, {ids.begin(), ids.begin() + 25}));
  for (std::size_t i = 25; i < ids.size(); ++i) posterior.add_open(rows_at(space, {ids[i]}));
  for (std::size_t i = ids.size(); i-- > 0;) posterior.set_value(i, values[i]);
  check_against_dense(space, kernel, posterior, ids, values);
}

TEST_CASE(
    "a member that joins the pool later gets the mean and the deviation of one that was there from the "
    "start") {
  const LegalSpace space = mixed_space();
  ProductKernel kernel(Encoding(space).axes());
  kernel.tabulate(false);
  const std::vector<ConfigId> members = some_ids(space, 30, 6);
  const std::vector<ConfigId> trials = some_ids(space, 20, 7);
  Posterior whole(kernel, rows_at(space, members));
  Posterior grown(kernel, rows_at(space, {members.begin(), members.begin() + 5}));
  for (Posterior* posterior : {&whole, &grown}) {
    posterior->add_open(rows_at(space, trials));
    for (std::size_t i = 0; i < 15; ++i) posterior->set_value(i, std::cos(0.3 * trials[i]));
  }
  CHECK(grown.add_members(rows_at(space, {members.begin() + 5, members.end()})) == 5);
  for (Posterior* posterior : {&whole, &grown}) posterior->set_value(17, 2.0);
  REQUIRE(grown.pool_size() == whole.pool_size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    CHECK(grown.mean(i) == doctest::Approx(whole.mean(i)).epsilon(1e-4).scale(1));
    CHECK(grown.deviation(i) == doctest::Approx(whole.deviation(i)).epsilon(1e-4).scale(1));
  }
}

TEST_CASE("an open observation narrows the variance around it and moves no mean") {
  const LegalSpace space = mixed_space();
  ProductKernel kernel(Encoding(space).axes());
  kernel.tabulate(false);
  std::vector<ConfigId> everything(space.size());
  for (ConfigId id = 0; id < everything.size(); ++id) everything[id] = id;
  Posterior posterior(kernel, rows_at(space, everything));
  posterior.add_open(rows_at(space, {0, 100, 200}));
  for (std::size_t i = 0; i < 3; ++i) posterior.set_value(i, static_cast<double>(i) - 1);
  std::vector<double> means;
  for (std::size_t i = 0; i < space.size(); ++i) means.push_back(posterior.mean(i));
  const double before = posterior.deviation(150);
  posterior.add_open(rows_at(space, {150}));
  CHECK(posterior.deviation(150) < 0.3 * before);
  for (std::size_t i = 0; i < space.size(); ++i) CHECK(posterior.mean(i) == means[i]);
}

TEST_CASE("of many trials the fastest half stays, and of the others some of all, the failures too") {
  std::vector<Observation> trials;
  for (ConfigId id = 0; id < 100; ++id)
    trials.push_back({id, id < 70 ? Outcome::ok : Outcome::crashed, id < 70 ? 100.0 - static_cast<double>(id) : 0});
  std::vector<ConfigId> kept;
  for (const Observation& one : thin(trials, 10)) kept.push_back(one.id);
  CHECK(kept == std::vector<ConfigId>{7, 26, 45, 64, 65, 66, 67, 68, 69, 81});
  CHECK(thin(trials, 100).size() == 100);
}

TEST_CASE("fitting finds which axis matters") {
  const LegalSpace space = full({integers("a", {1, 2, 4, 8, 16}), integers("b", {1, 2, 4, 8, 16})});
  ProductKernel kernel(Encoding(space).axes());
  std::vector<ConfigId> ids = some_ids(space, 20, 1);
  std::vector<double> values;
  for (const ConfigId id : ids) values.push_back(static_cast<double>(space.point(id)[0]) - 2.0);
  fit_kernel(kernel, rows_at(space, ids), values, 40);
  CHECK(kernel.parameters[kernel.relevance_index(0)] > kernel.parameters[kernel.relevance_index(1)] + 2);
}

TEST_CASE("an axis of up to 256 values has a step for each, a longer one at most 256, of neighbours in size") {
  const auto axis_of = [](std::size_t size) {
    std::vector<std::int64_t> values;
    for (std::size_t i = size; i-- > 0;) values.push_back(static_cast<std::int64_t>(8 * (i + 1)));  // descending
    const LegalSpace space = full({integers("a", values), integers("b", {1, 2, 4})});
    const Encoding encoding(space);
    REQUIRE(encoding.axes().size() == 2);
    for (ConfigId id = 0; id < space.size(); ++id) {
      std::vector<Position> row;
      encoding.append(space, id, row);
      REQUIRE(row[0] == encoding.axes()[0].step(space.point(id)[0]));
      REQUIRE(row[0] < encoding.axes()[0].size());
      REQUIRE(row[1] == space.point(id)[1]);
    }
    return encoding.axes()[0];
  };
  const Axis whole = axis_of(256);
  CHECK(whole.size() == 256);
  CHECK(whole.steps.empty());
  CHECK(whole.at[0] == 1);
  for (const std::size_t size : {257, 5000}) {
    const Axis axis = axis_of(size);
    CHECK(axis.size() > 100);
    CHECK(axis.size() <= 256);
    CHECK(axis.rough.size() == axis.size() * axis.size());
    CHECK(std::is_sorted(axis.at.begin(), axis.at.end()));
    CHECK(std::is_sorted(axis.steps.rbegin(), axis.steps.rend()));  // the values descend
    CHECK(axis.steps.front() == axis.size() - 1);
    CHECK(axis.steps[size - 2] == 1);  // small values differ most
    CHECK(axis.steps[size - 1] == 0);
  }
  Parameter names{"a", {}, ""};
  for (int i = 0; i < 600; ++i) names.values.push_back(Value::named("v" + std::to_string(i), i));
  const Axis named = Encoding(full({names})).axes()[0];
  CHECK(named.size() == 256);
  CHECK_FALSE(named.ordered);
}

TEST_CASE("a search of an axis of thousands of values asks for all of them, and a fit ends when it is over") {
  std::vector<std::int64_t> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i + 1);
  const LegalSpace space = full({integers("a", values)});
  const auto asked = [&](bool is_over) {
    const auto searcher = make_searcher("model", space, 1);
    searcher->end_when([=] { return is_over; });
    std::vector<ConfigId> ids;
    for (int i = 0; i < 40; ++i) {
      for (const ConfigId id : searcher->ask(1)) {
        const double apart = std::log2(id + 1) - 8;  // from the value 256
        searcher->tell({id, Outcome::ok, 100 + 20 * apart * apart});
        ids.push_back(id);
      }
    }
    return ids;
  };
  const std::vector<ConfigId> ids = asked(false);
  CHECK(ids.size() == 40);
  CHECK(std::any_of(ids.begin(), ids.end(), [](ConfigId id) { return id >= 240 && id <= 272; }));
  CHECK(asked(true).size() == 40);

  ProductKernel kernel(Encoding(space).axes());
  const std::vector<double> before = kernel.parameters;
  fit_kernel(kernel, rows_at(space, {1, 1000, 2000}), {-1, 0, 1}, 40, [] { return true; });
  CHECK(kernel.parameters == before);
  CHECK(kernel(rows_at(space, {1}).data(), rows_at(space, {1}).data()) == doctest::Approx(1));  // tabulated
}

TEST_CASE("the models find a smooth optimum that random search does not") {
  const LegalSpace space = mixed_space();
  const std::vector<Observation> outcomes = measure_all(space);
  double optimum = std::numeric_limits<double>::infinity();
  for (const Observation& o : outcomes) {
    if (has_usable_time(o)) optimum = std::min(optimum, o.time_us);
  }
  for (const char* strategy : {"auto", "model"}) {
    CAPTURE(strategy);
    int found = 0;
    int found_at_random = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto best = [&](const char* name) {
        return simulate(*make_searcher(name, space, seed), outcomes, 40, 1).best_us.back();
      };
      found += best(strategy) == optimum;
      found_at_random += best("random") == optimum;
    }
    CHECK(found >= 18);
    CHECK(found_at_random <= 8);
  }
}

TEST_CASE("auto holds back while much is open, and goes on when it is told") {
  const LegalSpace space = mixed_space();
  const auto searcher = make_searcher("auto", space, 1);
  const std::vector<ConfigId> first = searcher->ask(100);
  CHECK(first.size() >= 4);
  CHECK(first.size() <= 16);
  CHECK(searcher->ask(100).empty());
  searcher->tell(measure(space, first[0]));
  CHECK(searcher->ask(100).size() == 1);
}

TEST_CASE("the pool of a large space holds the neighbours of the fastest and a sample of the rest") {
  const std::vector<std::int64_t> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const LegalSpace space =
      full({integers("a", ten), integers("b", ten), integers("c", ten), integers("d", ten), integers("e", {1, 2})});
  Random random(1);
  const std::vector<Observation> fastest = {{777, Outcome::ok, 1}};
  const std::vector<ConfigId> pool = make_candidate_pool(space, fastest, random);
  CHECK(std::is_sorted(pool.begin(), pool.end()));
  CHECK(std::adjacent_find(pool.begin(), pool.end()) == pool.end());
  CHECK(pool.size() > 5000);
  CHECK(pool.size() < space.size());
  for (const ConfigId id : space.neighbours(777)) CHECK(std::binary_search(pool.begin(), pool.end(), id));
}
