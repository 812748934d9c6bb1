#include "ranges/set_cover.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>

using namespace moetune;

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed * 2654435761u + 1) {}
  std::uint64_t below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_;
};

// Few different times, so that there are ties.
std::vector<CellTimes> random_cells(Draws& draws, std::size_t cubins) {
  std::vector<CellTimes> cells(1 + draws.below(8));
  for (CellTimes& cell : cells) {
    cell.default_us = draws.below(10) == 0 ? kInfinite : 10 + static_cast<double>(draws.below(4));
    for (std::size_t i = 0; i < cubins; ++i)
      cell.cubins.push_back(draws.below(8) == 0 ? kInfinite : 10 + static_cast<double>(draws.below(6)) / 2);
  }
  return cells;
}

struct Judged {
  bool broken = false;
  std::size_t size = 0;
  double price = 0, worst = 0, sum = 0;
};

Judged judge(const std::vector<CellTimes>& cells, const std::vector<std::size_t>& set, double bound) {
  Judged judged{.size = set.size()};
  for (const CellTimes& cell : cells) {
    if (cell.best_us() == kInfinite) continue;
    double time = cell.default_us;
    for (const std::size_t cubin : set) time = std::min(time, cell.cubins[cubin]);
    judged.price += time < kInfinite ? std::log(time / cell.best_us()) : 2;
    const double regret = time / cell.best_us() - 1;
    judged.worst = std::max(judged.worst, regret);
    judged.sum += std::log1p(regret);
  }
  judged.broken = judged.worst > bound;
  return judged;
}

// Whether a is better than b.
bool precedes(const Judged& a, const Judged& b) {
  if (a.broken != b.broken) return !a.broken;
  if (a.broken) return std::tie(a.price, a.size) < std::tie(b.price, b.size);
  return std::tie(a.size, a.worst, a.sum) < std::tie(b.size, b.worst, b.sum);
}

}  // namespace

TEST_CASE("no set within the limit is better than the one that is chosen, and of equals it is the first") {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Draws draws(seed);
    const std::size_t cubins = 1 + draws.below(8), limit = draws.below(5);
    const std::vector<CellTimes> cells = random_cells(draws, cubins);
    const double bound = static_cast<double>(draws.below(4)) * 0.04;
    const Cover chosen = choose_cubins(cells, bound, limit);
    CAPTURE(seed);
    REQUIRE(chosen.cubins.size() <= limit);
    const Judged found = judge(cells, chosen.cubins, bound);
    CHECK((chosen.worst_regret == found.worst || std::abs(chosen.worst_regret - found.worst) < 1e-12));
    CHECK(chosen.within_bound == !found.broken);
    for (std::size_t mask = 0; mask < (std::size_t{1} << cubins); ++mask) {
      std::vector<std::size_t> set;
      for (std::size_t i = 0; i < cubins; ++i) {
        if (mask >> i & 1) set.push_back(i);
      }
      if (set.size() > limit) continue;
      REQUIRE_FALSE(precedes(judge(cells, set, bound), found));
    }
    CHECK(choose_cubins(cells, bound, limit).cubins == chosen.cubins);
  }
}

TEST_CASE("past the bound, one large loss is worse than several small ones") {
  // The first cubin keeps the bound in nine cells of ten, the second in none.
  std::vector<CellTimes> cells(10, CellTimes{.cubins = {10.1, 10.3, 10}, .default_us = 30, .others_us = 10});
  cells[9].cubins = {14, 10.3, kInfinite};
  cells[0].cubins[2] = kInfinite;
  CHECK(choose_cubins(cells, 0.02, 1).cubins == std::vector<std::size_t>{1});
}

TEST_CASE("a choice never loses to the default in its cell") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Draws draws(seed);
    const std::vector<CellTimes> cells = random_cells(draws, 6);
    const Cover chosen = choose_cubins(cells, 0.05, 2);
    for (const CellTimes& cell : cells) {
      const std::optional<std::size_t> choice = best_choice(cell, chosen.cubins);
      if (choice) CHECK(cell.cubins[*choice] < cell.default_us);
      const double served = choice ? cell.cubins[*choice] : cell.default_us;
      if (cell.best_us() != kInfinite) CHECK(served / cell.best_us() - 1 <= chosen.worst_regret + 1e-12);
    }
  }
}

TEST_CASE("a problem too large for all sets is covered all the same") {
  Draws draws(7);
  std::vector<CellTimes> cells(60);
  for (std::size_t c = 0; c < cells.size(); ++c) {
    cells[c].default_us = 20;
    for (std::size_t i = 0; i < 80; ++i)
      cells[c].cubins.push_back(i % 20 == c % 20 ? 10 : 11 + static_cast<double>(draws.below(50)) / 10);
  }
  const Cover chosen = choose_cubins(cells, 0.02, 30);
  CHECK(chosen.within_bound);
  CHECK(chosen.cubins.size() == 20);
}

TEST_CASE("without cells nothing is needed") {
  const Cover chosen = choose_cubins({}, 0.02, 4);
  CHECK(chosen.cubins.empty());
  CHECK(chosen.within_bound);
}
