// What the launches of a cubin take, by how their work falls to blocks. Some numbers of the cubin are fitted to its
// times: how many of its blocks take the whole bandwidth, what it costs to begin one, what run-time values cost, and
// what is lost where some SMs hold a block more than others. A problem that nobody measured then has an expected time.
//
// The time is a sum: the makespan of list scheduling (kernels/block_loads.h), terms for each run-time value that is a
// number, for each that is none and for each pair of the two, and shares of the makespan by the kind of the last wave.
// Least squares of relative errors find its coefficients; the pace of a block is the best of a few. Deterministic;
// immutable once made; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/block_loads.h"
#include "ranges/time_model.h"

namespace moetune {

class LaunchTimes {
 public:
  static constexpr std::size_t kLeastTimes = 60;  // fewer say too little of a cubin

  // Of a few equally likely orders of the work; not empty.
  using Loads = std::shared_ptr<const std::vector<BlockLoads>>;
  struct Launch {
    std::size_t config = 0;
    double waves = 0;  // blocks over SMs
    Loads loads;
  };
  struct Timed {
    Launch launch;
    double time_us = 0;
  };

  // At least one time. `configs`, to which launches point, must outlive this. `is_even`: blocks read equally much, but
  // for a tile, so that what the last wave loses follows from how many there are.
  LaunchTimes(const std::vector<TimeModel::Config>& configs, std::vector<Timed> times, std::int64_t sm_count,
              bool is_even);

  // The time that the blocks of such a launch need, without what run-time values add.
  double work_us(const std::vector<BlockLoads>& loads) const;
  // `work_us` is that of its loads; the result is no less.
  double time_us(const Launch& launch, double work_us) const;

 private:
  struct Pace {
    double saturating, block_bytes;  // the latter while all SMs read at full rate
  };
  double work(const std::vector<BlockLoads>& loads, const Pace& pace) const;
  std::vector<double> terms(const Launch& launch, double work_us) const;
  double fit(const std::vector<Timed>& times, const Pace& pace);  // the error that is left

  const std::vector<TimeModel::Config>& configs_;
  const std::int64_t sm_count_;
  const bool is_even_;
  std::vector<std::vector<std::size_t>> names_;  // known values of each run-time value that is no number
  Pace pace_{};
  double unit_ = 1;  // work in a microsecond, at the fastest that was seen
  std::vector<double> coefficients_;
};

// The times of one kind of work, cubin by cubin.
class CubinTimes {
 public:
  CubinTimes(const std::vector<TimeModel::Config>& configs, std::int64_t sm_count, bool is_even)
      : configs_(configs), sm_count_(sm_count), is_even_(is_even) {}

  void add(const LaunchTimes::Timed& timed) { times_.push_back(timed); }
  // With what was added. `threads` as in parallel_for.
  void fit(std::size_t threads);

  // Launches at one problem share what is computed for equal loads.
  class AtProblem {
   public:
    explicit AtProblem(const CubinTimes& times) : times_(times) {}
    // The natural logarithm of the launch's time in microseconds; 0 without loads, or if nothing was fitted.
    double mean_of(const LaunchTimes::Launch& launch);

   private:
    struct Known {
      std::size_t model;
      LaunchTimes::Loads loads;
      double work_us;
    };
    const CubinTimes& times_;
    std::vector<Known> known_;
  };

 private:
  std::size_t model_of(std::size_t config) const;

  const std::vector<TimeModel::Config>& configs_;
  const std::int64_t sm_count_;
  const bool is_even_;
  std::vector<LaunchTimes::Timed> times_;
  std::vector<LaunchTimes> models_;    // the last one of all cubins
  std::vector<std::size_t> model_of_;  // by cubin
};

// Equal loads of launches at one problem, each kept once.
class SharedLoads {
 public:
  LaunchTimes::Loads share(std::vector<BlockLoads> loads);  // null if empty

 private:
  std::vector<LaunchTimes::Loads> known_;
};

}  // namespace moetune
