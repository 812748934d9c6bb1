#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "search/random.h"
#include "search/simulation.h"
#include "search/strategies/candidate_pool.h"
#include "search/strategies/cholesky.h"
#include "search/strategies/evidence.h"
#include "search/strategies/posterior.h"

using namespace moetune;

namespace {

Parameter integers(std::string name, std::vector<std::int64_t> values) {
  Parameter parameter{std::move(name), {}, ""};
  for (const std::int64_t value : values) parameter.values.push_back(Value::integer(value));
  return parameter;
}

LegalSpace full(std::vector<Parameter> parameters) {
  std::vector<Position> rows;
  std::size_t count = 1;
  for (const Parameter& parameter : parameters) count *= parameter.values.size();
  std::vector<Position> row(parameters.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = i;
    for (std::size_t p = parameters.size(); p-- > 0; rest /= parameters[p].values.size())
      row[p] = static_cast<Position>(rest % parameters[p].values.size());
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return LegalSpace(std::move(parameters), std::move(rows));
}

LegalSpace mixed_space() {
  Parameter loader{
      "loader", {Value::named("plain", 0), Value::named("async", 1), Value::named("tma", 2)}, ""};
  return full({integers("tile", {16, 32, 48, 64, 96, 128}), integers("stages", {1, 2, 3, 4, 6, 8}),
               integers("vector", {1, 2, 4, 8}), std::move(loader), integers("flag", {0, 1})});
}

// Smooth in the logarithms, with an interaction and a preference for one name; a corner of it fails.
Observation measure(const LegalSpace& space, ConfigId id) {
  const Config config = space.config(id);
  const double tile = std::log2(static_cast<double>(config.number("tile")));
  const double stages = static_cast<double>(config.number("stages"));
  if (tile * stages > 50) return {id, Outcome::launch_failed, 0};
  double time =
      20 + std::pow(tile - 5.5, 2) + std::pow(stages - 4, 2) * (config.number("flag") == 0 ? 1 : 0.3);
  time += config.is("loader", "tma") ? 0 : 4;
  time += 3 * std::abs(std::log2(static_cast<double>(config.number("vector"))) - 2);
  return {id, Outcome::ok, time};
}

std::vector<Observation> measure_all(const LegalSpace& space) {
  std::vector<Observation> all;
  for (ConfigId id = 0; id < space.size(); ++id) all.push_back(measure(space, id));
  return all;
}

PastTrial past(const LegalSpace& space, const Observation& trial) {
  const std::span<const Position> point = space.point(trial.id);
  return {{point.begin(), point.end()}, trial.outcome, trial.time_us};
}

std::vector<Position> rows_of(const LegalSpace& space, const std::vector<ConfigId>& ids) {
  const Encoding encoding(space);
  std::vector<Position> rows;
  for (const ConfigId id : ids) encoding.append(space, id, rows);
  return rows;
}

std::vector<ConfigId> some_ids(const LegalSpace& space, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<ConfigId> ids(space.size());
  for (ConfigId id = 0; id < ids.size(); ++id) ids[id] = id;
  random.shuffle(ids);
  ids.resize(count);
  return ids;
}

// Mean and relative variance at every configuration, by solving the whole system once a configuration.
void check_against_dense(const LegalSpace& space, const ProductKernel& kernel, const Posterior& posterior,
                         const std::vector<ConfigId>& ids, const std::vector<double>& values) {
  const std::vector<Position> rows = rows_of(space, ids);
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
  const std::vector<Position> pool = rows_of(space, everything);
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
      for (std::size_t j = 0; j <= i; ++j)
        solved += inverse[j * n + i] * kernel(&pool[id * axes], &rows[j * axes]);
      mean += solved * whitened[i];
      variance -= solved * solved;
    }
    CHECK(posterior.mean(id) == doctest::Approx(mean).epsilon(1e-3).scale(1));
    CHECK(posterior.deviation(id) ==
          doctest::Approx(std::sqrt(signal * std::max(variance, 1e-6))).epsilon(0.02).scale(0.1));
  }
}

}  // namespace

TEST_CASE(
    "the incremental posterior is the one that solving the whole system gives, in any order of telling") {
  const LegalSpace space = mixed_space();
  ProductKernel kernel(Encoding(space).axes());
  kernel.tabulate(false);
  const std::vector<ConfigId> ids = some_ids(space, 40, 3);
  std::vector<double> values;
  for (const ConfigId id : ids) values.push_back(std::sin(0.1 * id));

  std::vector<ConfigId> everything(space.size());
  for (ConfigId id = 0; id < everything.size(); ++id) everything[id] = id;
  Posterior posterior(kernel, rows_of(space, everything));
  posterior.add_open(rows_of(space, {ids.begin(), ids.begin() + 25}));
  for (std::size_t i = 25; i < ids.size(); ++i) posterior.add_open(rows_of(space, {ids[i]}));
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
  Posterior whole(kernel, rows_of(space, members));
  Posterior grown(kernel, rows_of(space, {members.begin(), members.begin() + 5}));
  for (Posterior* posterior : {&whole, &grown}) {
    posterior->add_open(rows_of(space, trials));
    for (std::size_t i = 0; i < 15; ++i) posterior->set_value(i, std::cos(0.3 * trials[i]));
  }
  CHECK(grown.add_members(rows_of(space, {members.begin() + 5, members.end()})) == 5);
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
  Posterior posterior(kernel, rows_of(space, everything));
  posterior.add_open(rows_of(space, {0, 100, 200}));
  for (std::size_t i = 0; i < 3; ++i) posterior.set_value(i, static_cast<double>(i) - 1);
  std::vector<double> means;
  for (std::size_t i = 0; i < space.size(); ++i) means.push_back(posterior.mean(i));
  const double before = posterior.deviation(150);
  posterior.add_open(rows_of(space, {150}));
  CHECK(posterior.deviation(150) < 0.3 * before);
  for (std::size_t i = 0; i < space.size(); ++i) CHECK(posterior.mean(i) == means[i]);
}

TEST_CASE("fitting finds which axis matters") {
  const LegalSpace space = full({integers("a", {1, 2, 4, 8, 16}), integers("b", {1, 2, 4, 8, 16})});
  ProductKernel kernel(Encoding(space).axes());
  std::vector<ConfigId> ids = some_ids(space, 20, 1);
  std::vector<double> values;
  for (const ConfigId id : ids) values.push_back(static_cast<double>(space.point(id)[0]) - 2.0);
  fit_kernel(kernel, rows_of(space, ids), values, 40);
  CHECK(kernel.parameters[kernel.relevance_index(0)] > kernel.parameters[kernel.relevance_index(1)] + 2);
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

TEST_CASE("a warm start tries the winners of the histories first, with random starts beside them") {
  const LegalSpace space = mixed_space();
  std::vector<History> histories(2);
  for (const ConfigId id : some_ids(space, 60, 9))
    histories[0].trials.push_back(past(space, measure(space, id)));
  for (const ConfigId id : some_ids(space, 60, 10)) {
    Observation trial = measure(space, id);
    trial.time_us *= 7;  // another GPU: slower all over
    histories[1].trials.push_back(past(space, trial));
  }
  const auto winner = [&](const History& history) {
    const auto time = [](const PastTrial& trial) {
      return trial.outcome == Outcome::ok ? trial.time_us : std::numeric_limits<double>::infinity();
    };
    const auto best = std::min_element(history.trials.begin(), history.trials.end(),
                                       [&](const auto& a, const auto& b) { return time(a) < time(b); });
    return *space.find(best->point);
  };
  std::set<ConfigId> random_starts;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto searcher = make_searcher("auto", space, seed);
    searcher->warm(histories);
    const std::vector<ConfigId> asked = searcher->ask(3);
    REQUIRE(asked.size() == 3);
    CHECK(asked[0] == winner(histories[0]));
    if (winner(histories[1]) != asked[0]) CHECK(asked[1] == winner(histories[1]));
    random_starts.insert(asked[2]);
  }
  CHECK(random_starts.size() > 1);
}

TEST_CASE(
    "a history makes a search shorter where it is of a like problem, and harmless where it is nonsense") {
  const LegalSpace space = mixed_space();
  const std::vector<Observation> outcomes = measure_all(space);
  History like;
  History nonsense;
  Random random(4);
  for (const ConfigId id : some_ids(space, 120, 2)) {
    like.trials.push_back(past(space, outcomes[id]));
    like.trials.back().time_us *= 3;
    nonsense.trials.push_back(past(space, {id, Outcome::ok, 1 + random.unit()}));
  }
  nonsense.trials.push_back({{9, 9, 9, 9, 9}, Outcome::ok, 1});
  nonsense.trials.push_back({{0, 0}, Outcome::ok, 1});
  nonsense.trials.push_back(past(space, {5, Outcome::ok, std::numeric_limits<double>::quiet_NaN()}));
  double cold = 0, warm = 0, misled = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    const auto best = [&](std::vector<History> histories, std::size_t budget) {
      const auto searcher = make_searcher("auto", space, seed);
      searcher->warm(histories);
      const SimulatedRun run = simulate(*searcher, outcomes, budget, 1);
      CHECK_FALSE(run.repeated);
      return run.best_us.back();
    };
    cold += best({}, 12);
    warm += best({like}, 12);
    misled += best({nonsense}, 60);
  }
  CHECK(warm < cold);
  CHECK(misled / 15 < 1.05 * 20);
}

TEST_CASE("histories that have the order upside down, however well they agree, cost a search a few trials") {
  const LegalSpace space = mixed_space();
  const std::vector<Observation> outcomes = measure_all(space);
  double cold = 0, misled = 0;
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    std::vector<History> wrong(3);
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      for (const ConfigId id : some_ids(space, 120, 10 * seed + i)) {
        wrong[i].trials.push_back(past(space, outcomes[id]));
        wrong[i].trials.back().time_us = 1000 / outcomes[id].time_us;
      }
    }
    const auto best = [&](const std::vector<History>& histories, std::size_t budget) {
      const auto searcher = make_searcher("auto", space, seed);
      searcher->warm(histories);
      return simulate(*searcher, outcomes, budget, 1).best_us.back();
    };
    cold += best({}, 25);
    misled += best(wrong, 32);
  }
  CHECK(misled <= 1.02 * cold);
}

TEST_CASE(
    "a winner that is not legal here is a start all the same: a configuration that is, as near as there is "
    "one") {
  const LegalSpace whole = full({integers("tile", {16, 32, 64, 128}), integers("splits", {1, 2, 4, 8})});
  std::vector<Position> rows;
  for (ConfigId id = 0; id < whole.size(); ++id) {
    if (whole.point(id)[1] < 2) continue;
    rows.insert(rows.end(), whole.point(id).begin(), whole.point(id).end());
  }
  const LegalSpace space(whole.parameters(), rows);
  History history;
  for (ConfigId id = 0; id < whole.size(); ++id)
    history.trials.push_back(past(whole, {id, Outcome::ok, id == 8 ? 1.0 : 10.0 + id}));  // tile=64,splits=1
  std::set<std::string> first;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto searcher = make_searcher("auto", space, seed);
    searcher->warm(std::vector<History>{history});
    first.insert(space.config(searcher->ask(1).at(0)).text());
  }
  CHECK(first == std::set<std::string>{"tile=64,splits=4", "tile=64,splits=8"});
}

TEST_CASE("the pool of a large space holds the neighbours of the fastest and a sample of the rest") {
  const std::vector<std::int64_t> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const LegalSpace space = full({integers("a", ten), integers("b", ten), integers("c", ten),
                                 integers("d", ten), integers("e", {1, 2})});
  Random random(1);
  const std::vector<Observation> fastest = {{777, Outcome::ok, 1}};
  const std::vector<ConfigId> pool = make_candidate_pool(space, fastest, random);
  CHECK(std::is_sorted(pool.begin(), pool.end()));
  CHECK(std::adjacent_find(pool.begin(), pool.end()) == pool.end());
  CHECK(pool.size() > 5000);
  CHECK(pool.size() < space.size());
  for (const ConfigId id : space.neighbours(777, Neighbourhood::hamming))
    CHECK(std::binary_search(pool.begin(), pool.end(), id));
}
