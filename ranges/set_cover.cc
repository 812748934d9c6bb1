#include "ranges/set_cover.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace moetune {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kPriceOfNothing = 2;  // of a cell in which nothing of a set runs

// How good a set is: less is better. Sets of one size only are compared by what follows the size.
struct Merit {
  bool breaks_bound = true;
  double price = kNever;
  std::size_t size = 0;
  double worst = kNever, sum = kNever;

  bool operator<(const Merit& other) const {
    // Past the bound a larger set may well be worth its size; and one cell that no set serves well must not decide.
    if (breaks_bound && other.breaks_bound) return std::tie(price, size) < std::tie(other.price, other.size);
    return std::tie(breaks_bound, size, worst, sum) < std::tie(other.breaks_bound, other.size, other.worst, other.sum);
  }
};

// Infinity if nothing runs.
double served_us(const CellTimes& cell, const std::vector<std::size_t>& set) {
  double served = cell.default_us;
  for (const std::size_t cubin : set) served = std::min(served, cell.cubins[cubin]);
  return served;
}

class CoverSearch {
 public:
  CoverSearch(const std::vector<CellTimes>& cells, double bound, std::size_t limit)
      : cells_(cells), bound_(bound), count_(cells.empty() ? 0 : cells.front().cubins.size()) {
    limit_ = std::min(limit, count_);
    for (const CellTimes& cell : cells_) best_us_.push_back(cell.best_us());
  }

  Cover run() {
    take({});
    greedy();
    for (std::size_t size = 1; size <= limit_ && looks_ < kExactLooks; ++size) {
      if (!best_merit_.breaks_bound && size > best_.size()) break;
      std::vector<std::size_t> chosen;
      enumerate(0, size, chosen);
    }
    return {best_, best_merit_.worst, !best_merit_.breaks_bound};
  }

 private:
  // The loss of the set in a cell: the log of its time over the best; kPriceOfNothing if nothing serves it.
  static double price(const CellTimes& cell, double best_us, const std::vector<std::size_t>& set) {
    const double served = served_us(cell, set);
    return served == kNever ? kPriceOfNothing : std::log(served / best_us);
  }

  // nullopt as soon as it is no better than `least`, which each further cell only adds to.
  std::optional<Merit> merit(const std::vector<std::size_t>& set, const Merit& least) {
    Merit merit{.breaks_bound = false, .price = 0, .size = set.size(), .worst = 0, .sum = 0};
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      if (best_us_[c] == kNever) continue;
      ++looks_;
      const CellTimes& cell = cells_[c];
      const double regret = served_us(cell, set) / best_us_[c] - 1;
      merit.price += price(cell, best_us_[c], set);
      merit.worst = std::max(merit.worst, regret);
      merit.sum += std::log1p(regret);
      merit.breaks_bound = merit.breaks_bound || merit.worst > bound_;
      if (!(merit < least)) return std::nullopt;
    }
    return merit < least ? std::optional(merit) : std::nullopt;
  }

  bool take(const std::vector<std::size_t>& set) {
    const std::optional<Merit> found = merit(set, best_merit_);
    if (!found) return false;
    best_ = set;
    best_merit_ = *found;
    return true;
  }

  double whole_price(const std::vector<std::size_t>& set) const {
    double sum = 0;
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      if (best_us_[c] != kNever) sum += price(cells_[c], best_us_[c], set);
    }
    return sum;
  }

  // Adds the cubin that helps most until nothing helps: a first answer, and the only one for large problems.
  void greedy() {
    std::vector<std::size_t> set;
    while (set.size() < limit_) {
      std::optional<std::size_t> next;
      double least_price = kNever;
      for (std::size_t cubin = 0; cubin < count_; ++cubin) {
        if (std::find(set.begin(), set.end(), cubin) != set.end()) continue;
        std::vector<std::size_t> more = set;
        more.insert(std::upper_bound(more.begin(), more.end(), cubin), cubin);
        const double found = whole_price(more);
        if (next && found >= least_price) continue;
        next = cubin;
        least_price = found;
      }
      if (!next) return;
      set.insert(std::upper_bound(set.begin(), set.end(), *next), *next);
      if (take(set) && !best_merit_.breaks_bound) return;
    }
  }

  void enumerate(std::size_t first, std::size_t more, std::vector<std::size_t>& chosen) {
    if (more == 0) {
      take(chosen);
      return;
    }
    for (std::size_t cubin = first; cubin + more <= count_ && looks_ < kExactLooks; ++cubin) {
      chosen.push_back(cubin);
      enumerate(cubin + 1, more - 1, chosen);
      chosen.pop_back();
    }
  }

  const std::vector<CellTimes>& cells_;
  const double bound_;
  const std::size_t count_;
  std::size_t limit_ = 0, looks_ = 0;
  std::vector<double> best_us_;
  std::vector<std::size_t> best_;
  Merit best_merit_;
};

}  // namespace

double CellTimes::best_us() const {
  double best = std::min(default_us, others_us);
  for (const double time : cubins) best = std::min(best, time);
  return best;
}

std::optional<std::size_t> best_choice(const CellTimes& cell, const std::vector<std::size_t>& cubins) {
  std::optional<std::size_t> best;
  for (const std::size_t cubin : cubins) {
    if (cell.cubins[cubin] == kNever || cell.cubins[cubin] >= cell.default_us) continue;
    if (!best || cell.cubins[cubin] < cell.cubins[*best]) best = cubin;
  }
  return best;
}

Cover choose_cubins(const std::vector<CellTimes>& cells, double bound, std::size_t limit) {
  return CoverSearch(cells, bound, limit).run();
}

}  // namespace moetune
