#include "search/enumerate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "search/binding_order.h"

namespace moetune {
namespace {

// One test or computation at a level of the tree: a constraint, or a let whose value goes to `slot`.
struct Step {
  const Program* program;
  bool is_constraint;
  std::uint32_t target;  // the constraint's number, or the let's slot
};

struct Level {
  std::size_t parameter;
  std::vector<std::pair<Position, std::int64_t>> values;  // position and what it is worth in expressions
  std::vector<Step> steps;
  std::uint64_t work = 0;  // of all steps: instructions
};

class Enumeration {
 public:
  Enumeration(const BoundSpace& space, EnumerationStats& stats, std::uint64_t max_nodes = kMaxNodes)
      : space_(space),
        stats_(stats),
        max_nodes_(max_nodes),
        slots_(space.slot_count()),
        width_(space.file().parameters.size()) {
    stats_.rejections.assign(space.constraints().size(), {});
  }

  std::uint64_t count() {
    keeps_rows_ = false;
    walk();
    return found_;
  }

  std::vector<Position> run() {
    walk();
    if (!std::is_sorted(stats_.order.begin(), stats_.order.end())) sort_rows();
    return std::move(rows_);
  }

 private:
  void walk() {
    if (!narrow_domains()) return;
    stats_.order = choose_binding_order(space_, domains_);
    build_levels();
    row_.resize(width_);
    descend(0);
  }

  // Gates and constraints on nothing or on one parameter, once and for all. False where nothing is left.
  bool narrow_domains() {
    for (std::size_t p = 0; p < width_; ++p) {
      std::vector<Position>& domain = domains_.emplace_back();
      for (std::size_t i = 0; i < space_.file().parameters[p].values.size(); ++i) {
        if (space_.allowed(p, static_cast<Position>(i))) domain.push_back(static_cast<Position>(i));
      }
    }
    bool possible = true;
    for (const BoundSpace::Rule& rule : space_.constraints()) {
      if (rule.parameters.empty()) possible = holds(rule) && possible;
      if (rule.parameters.size() == 1) narrow(rule.parameters[0], rule);
    }
    return possible &&
           std::none_of(domains_.begin(), domains_.end(), [](const auto& domain) { return domain.empty(); });
  }

  void narrow(std::size_t p, const BoundSpace::Rule& rule) {
    const std::uint64_t work = work_of(rule);
    std::erase_if(domains_[p], [&](Position position) {
      spend(work);
      slots_[p] = space_.value_of(p, position);
      for (const std::size_t let : rule.lets) compute_let(let);
      return !holds(rule);
    });
  }

  bool holds(const BoundSpace::Rule& rule) { return passes_with(rule.program.run(slots_.data()), number_of(rule)); }

  std::uint64_t work_of(const BoundSpace::Rule& rule) const {
    std::uint64_t size = rule.program.size();
    for (const std::size_t let : rule.lets) size += space_.lets()[let].program.size();
    return size;
  }

  void spend(std::uint64_t work) {
    work_ += work;
    if (work_ <= kMaxWork * max_nodes_) return;
    throw BadInput(space_.file().file + ": its expressions take too long to evaluate for all combinations; " +
                   "shorten them, add constraints on fewer parameters, or drop values");
  }

  bool passes_with(std::int64_t value, std::uint32_t constraint) {
    if (value != 0 && value != kUndefined) return true;
    Rejections& rejections = stats_.rejections[constraint];
    ++rejections.total;
    rejections.undefined += value == kUndefined;
    return false;
  }

  std::uint32_t number_of(const BoundSpace::Rule& constraint) const {
    return static_cast<std::uint32_t>(&constraint - space_.constraints().data());
  }

  void compute_let(std::size_t let) { slots_[space_.let_slot(let)] = space_.lets()[let].program.run(slots_.data()); }

  void build_levels() {
    std::vector<std::size_t> level_of(width_);
    for (std::size_t depth = 0; depth < width_; ++depth) {
      const std::size_t p = stats_.order[depth];
      level_of[p] = depth;
      Level& level = levels_.emplace_back(Level{p, {}, {}});
      for (const Position position : domains_[p]) level.values.emplace_back(position, space_.value_of(p, position));
    }
    const auto last_level = [&](const BoundSpace::Rule& rule) {
      std::size_t last = 0;
      for (const std::size_t p : rule.parameters) last = std::max(last, level_of[p]);
      return last;
    };
    std::vector<const BoundSpace::Rule*> constraints;
    for (const BoundSpace::Rule& rule : space_.constraints()) {
      if (rule.parameters.size() > 1) constraints.push_back(&rule);
    }
    std::ranges::stable_sort(constraints, [&](const auto* a, const auto* b) {
      return std::pair(last_level(*a), work_of(*a)) < std::pair(last_level(*b), work_of(*b));
    });
    std::vector<bool> computed(space_.lets().size());
    for (const BoundSpace::Rule* rule : constraints) add_steps(*rule, last_level, computed);
    for (Level& level : levels_) {
      for (const Step& step : level.steps) level.work += step.program->size();
    }
  }

  // A let is computed at the level of its own last parameter, once, before the first constraint there that
  // needs it; where only deeper levels need it, after all constraints of its level.
  template <typename LastLevel>
  void add_steps(const BoundSpace::Rule& rule, const LastLevel& last_level, std::vector<bool>& computed) {
    for (const std::size_t let : rule.lets) {
      if (computed[let]) continue;
      computed[let] = true;
      const BoundSpace::Rule& quantity = space_.lets()[let];
      levels_[last_level(quantity)].steps.push_back({&quantity.program, false, space_.let_slot(let)});
    }
    levels_[last_level(rule)].steps.push_back({&rule.program, true, number_of(rule)});
  }

  bool passes(const Level& level) {
    for (const Step& step : level.steps) {
      const std::int64_t value = step.program->run(slots_.data());
      if (!step.is_constraint) {
        slots_[step.target] = value;
      } else if (!passes_with(value, step.target)) {
        return false;
      }
    }
    return true;
  }

  void descend(std::size_t depth) {
    if (depth == width_) return emit();
    const Level& level = levels_[depth];
    stats_.nodes += level.values.size();
    if (stats_.nodes > max_nodes_) {
      throw BadInput(space_.file().file + ": more than " + std::to_string(max_nodes_) +
                     " combinations to try; add constraints on fewer parameters, or drop values");
    }
    for (const auto& [position, value] : level.values) {
      spend(level.work);
      slots_[level.parameter] = value;
      row_[level.parameter] = position;
      if (passes(level)) descend(depth + 1);
    }
  }

  void emit() {
    ++found_;
    if (!keeps_rows_) return;
    if (found_ > kMaxLegal || found_ * width_ > kMaxPositions) {
      throw BadInput(space_.file().file + ": more than " + std::to_string(found_ - 1) +
                     " legal configurations; add constraints or drop values");
    }
    rows_.insert(rows_.end(), row_.begin(), row_.end());
  }

  // Least significant parameter first, each pass a stable counting sort: linear in the rows.
  void sort_rows() {
    const std::size_t count = rows_.size() / width_;
    std::vector<std::uint32_t> order(count);
    std::vector<std::uint32_t> sorted(count);
    std::iota(order.begin(), order.end(), 0u);
    for (std::size_t p = width_; p-- > 0;) {
      if (domains_[p].size() == 1) continue;
      std::vector<std::uint32_t> starts(space_.file().parameters[p].values.size() + 1);
      for (std::size_t i = 0; i < count; ++i) ++starts[rows_[i * width_ + p] + 1u];
      std::partial_sum(starts.begin(), starts.end(), starts.begin());
      for (const std::uint32_t row : order) sorted[starts[rows_[row * width_ + p]]++] = row;
      order.swap(sorted);
    }
    std::vector<Position> rows;
    rows.reserve(rows_.size());
    for (const std::uint32_t row : order) {
      const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(row * width_);
      rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(width_));
    }
    rows_.swap(rows);
  }

  const BoundSpace& space_;
  EnumerationStats& stats_;
  const std::uint64_t max_nodes_;
  std::uint64_t work_ = 0;  // instructions of expressions
  std::vector<std::int64_t> slots_;
  std::size_t width_;
  std::vector<std::vector<Position>> domains_;
  std::vector<Level> levels_;
  std::vector<Position> row_;
  std::vector<Position> rows_;
  bool keeps_rows_ = true;
  std::uint64_t found_ = 0;
};

}  // namespace

std::vector<Position> enumerate_rows(const BoundSpace& space, EnumerationStats* stats) {
  EnumerationStats unused;
  return Enumeration(space, stats != nullptr ? *stats : unused).run();
}

std::uint64_t count_rows(const BoundSpace& space, std::uint64_t max_nodes) {
  EnumerationStats unused;
  return Enumeration(space, unused, max_nodes).count();
}

}  // namespace moetune
