#include "search/binding_order.h"

#include <algorithm>
#include <cmath>

#include "base/lists.h"
#include "search/random.h"

namespace moetune {
namespace {

constexpr int kSampledRows = 512;

// The share of random points that satisfies each constraint, by sampling; never 0, since the sample is small.
std::vector<double> estimate_selectivity(const BoundSpace& space, const std::vector<std::vector<Position>>& domains) {
  Random random(1);
  std::vector<int> passed(space.constraints().size());
  std::vector<std::int64_t> slots(space.slot_count());
  for (int sample = 0; sample < kSampledRows; ++sample) {
    for (std::size_t p = 0; p < domains.size(); ++p) {
      slots[p] = space.value_of(p, domains[p][random.below(domains[p].size())]);
    }
    for (std::size_t let = 0; let < space.lets().size(); ++let) {
      slots[space.let_slot(let)] = space.lets()[let].program.run(slots.data());
    }
    for (std::size_t c = 0; c < passed.size(); ++c) passed[c] += space.constraints()[c].program.holds(slots.data());
  }
  return gathered(passed, [](int count) { return (count + 0.5) / (kSampledRows + 0.5); });
}

class Chooser {
 public:
  Chooser(const BoundSpace& space, const std::vector<std::vector<Position>>& domains)
      : space_(space), domains_(domains), selectivity_(estimate_selectivity(space, domains)), bound_(domains.size()) {}

  // Completes one constraint after another, each time the one that makes the tree grow least. Parameters that
  // no constraint reads come last, where they multiply leaves and nothing else.
  std::vector<std::size_t> choose() {
    for (;;) {
      const std::vector<std::size_t>* next = nullptr;
      double least = 0;
      for (const BoundSpace::Rule& constraint : space_.constraints()) {
        if (is_bound(constraint)) continue;
        const double growth = growth_of(constraint.parameters);
        if (next == nullptr || growth < least) {
          next = &constraint.parameters;
          least = growth;
        }
      }
      if (next == nullptr) break;
      bind_all(*next);
    }
    std::vector<std::size_t> free;
    for (std::size_t p = 0; p < bound_.size(); ++p) {
      if (!bound_[p]) free.push_back(p);
    }
    for (const std::size_t p : free) bind(p);
    return std::move(order_);
  }

 private:
  bool is_bound(const BoundSpace::Rule& rule) const {
    return std::all_of(rule.parameters.begin(), rule.parameters.end(), [&](std::size_t p) { return bound_[p]; });
  }

  // How many times more nodes there are once `parameters` are bound too.
  double growth_of(const std::vector<std::size_t>& parameters) {
    const std::vector<bool> before = bound_;
    double growth = 1;
    for (const std::size_t p : parameters) {
      if (!bound_[p]) growth *= static_cast<double>(domains_[p].size());
    }
    std::vector<bool> complete(space_.constraints().size());
    for (std::size_t c = 0; c < complete.size(); ++c) complete[c] = is_bound(space_.constraints()[c]);
    for (const std::size_t p : parameters) bound_[p] = true;
    for (std::size_t c = 0; c < complete.size(); ++c) {
      if (!complete[c] && is_bound(space_.constraints()[c])) growth *= selectivity_[c];
    }
    bound_ = before;
    return growth;
  }

  // Within a group, what completes most constraints on the way goes first, then the smaller domain.
  void bind_all(const std::vector<std::size_t>& parameters) {
    for (;;) {
      const std::size_t none = domains_.size();
      std::size_t next = none;
      double least = 0;
      for (const std::size_t p : parameters) {
        if (bound_[p]) continue;
        const double growth = growth_of({p});
        if (next == none || growth < least) {
          next = p;
          least = growth;
        }
      }
      if (next == none) return;
      bind(next);
    }
  }

  void bind(std::size_t parameter) {
    bound_[parameter] = true;
    order_.push_back(parameter);
  }

  const BoundSpace& space_;
  const std::vector<std::vector<Position>>& domains_;
  std::vector<double> selectivity_;
  std::vector<bool> bound_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::vector<std::size_t> choose_binding_order(const BoundSpace& space,
                                              const std::vector<std::vector<Position>>& domains) {
  return Chooser(space, domains).choose();
}

}  // namespace moetune
