// The model of a space that `model` and `auto` search with: a Gaussian process of the logarithm of the time,
// another of failing, and the expected improvement over the candidates of a pool weighed by the probability to
// work. Trials of other problems or GPUs join as further tasks, told apart by one more axis whose relevance
// the evidence decides.
//
// Deterministic in what it was told and the random state it is given. One owner; not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "search/random.h"
#include "search/searcher.h"
#include "search/strategies/posterior.h"
#include "search/strategies/trial_log.h"
#include "search/untried.h"

namespace moetune {

// Whether a past trial's point lies in the domains of `space`, legal or not.
bool is_point_of(const LegalSpace& space, std::span<const Position> point);

class Surrogate {
 public:
  explicit Surrogate(const LegalSpace& space);

  // Before the first ask. Replaces what was given before.
  void set_history(std::span<const History> histories);

  // Fits take no further step once it returns true (Searcher::end_when).
  void end_when(std::function<bool()> is_over) { is_over_ = std::move(is_over); }

  // Whether the last fit used a history; true if there is no history to doubt.
  bool trusts_history() const;

  // A configuration was asked: it is open until it is told.
  void open(ConfigId id);
  void tell(const Observation& observation);

  const TrialLog& log() const { return log_; }
  // Whether there is enough to fit, and not so much that fitting would cost more than it gains.
  bool usable() const;

  // Fits again if that is due. usable() must hold.
  void fit_if_due(Random& random);
  // The candidate with the largest weighed expected improvement: of the pool, or of the configurations that
  // differ from `beside` in one parameter. Fits first if that is due. nullopt where none of them is untried.
  // usable() must hold.
  std::optional<ConfigId> pick(const Untried& untried, std::optional<ConfigId> beside, Random& random);

  // Up to n candidates of the pool by the same measure as of the last fit, the best first; none before the
  // first.
  std::vector<ConfigId> leaders(const Untried& untried, std::optional<ConfigId> beside, std::size_t n) const;

  // Fits to what was told so far; what follows is over the pool of that fit. usable() must hold.
  void refit(Random& random);
  const std::vector<ConfigId>& pool() const { return pool_; }
  const Posterior& times() const { return *times_; }
  double best_value() const;               // in the units of times()
  double scale() const { return scale_; }  // of those units, as logarithms of the time
  double success_probability(std::size_t i) const;

 private:
  struct HistoryPoint {
    std::size_t task = 0;
    std::vector<Position> point;
    std::optional<ConfigId> id;  // where the point is legal here
    bool failed = false;
    double log_time = 0;
  };
  struct Ranked {
    ConfigId id = 0;
    double gain = 0;  // expected reduction of the logarithm of the best time
  };
  struct Asked {
    ConfigId id = 0;
    std::size_t in_times = 0;
    std::size_t in_failures = 0;
    bool told = false;
  };

  void renew_pool(Random& random);
  void add_to_pool(const std::vector<ConfigId>& ids);
  void add_neighbours_to_pool(ConfigId id);
  void append_row(ConfigId id, std::vector<Position>& rows) const;
  void append_row(const HistoryPoint& past, std::vector<Position>& rows) const;
  struct Timed {  // what was measured here
    std::vector<Position> rows;
    std::vector<double> log_times;
  };
  Timed timed_here() const;
  std::vector<Observation> pool_starts() const;
  void update_task_trust();
  double pairwise_order_agreement(std::size_t task, const Timed& here) const;
  double closeness(const Position* a, const Position* b) const;
  std::vector<double> task_offsets() const;
  void fit_times(const std::vector<Observation>& trials);
  void fit_failures(const std::vector<Observation>& trials);
  void observe(Asked& asked, const Observation& observation);
  double value_of(double time) const;
  bool is_candidate(ConfigId id, const Untried& untried, std::optional<ConfigId> beside) const;
  // The weighed expected improvement of a member of the pool on `best`, as a logarithm of the time.
  double gain(std::size_t i, double best) const;

  const LegalSpace& space_;
  std::function<bool()> is_over_;
  Encoding encoding_;
  std::vector<HistoryPoint> past_;
  std::vector<double> similarity_ = {1};  // by task: this one, and one a history
  std::vector<bool> trusted_ = {true};    // by task, at the last fit
  TrialLog log_;
  std::vector<Asked> asked_;  // in the posteriors, or since the last fit
  ProductKernel time_kernel_;
  ProductKernel failure_kernel_;
  std::vector<ConfigId> pool_;
  std::vector<bool> in_pool_;  // by ConfigId, where the pool is a sample
  std::vector<Position> pool_rows_;
  std::optional<Posterior> times_;
  std::optional<Posterior> failures_;
  double centre_ = 0;  // values are (log time - centre) / scale
  double scale_ = 1;
  double failure_rate_ = 0;
  std::size_t fits_ = 0;
  std::size_t next_fit_ = 0;
};

}  // namespace moetune
