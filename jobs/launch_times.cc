#include "jobs/launch_times.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/cholesky.h"
#include "base/parallel.h"

namespace moetune {
namespace {

// What the pace of a block is chosen from.
constexpr double kSaturating[] = {0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.85, 1, 1.2, 1.5, 2};
constexpr double kBlockBytes[] = {8 << 10, 20 << 10, 40 << 10, 60 << 10};
constexpr double kIdleShare = 1.0 / 6;    // of a block with work, that one without costs
constexpr std::size_t kMostOfPace = 400;  // times that the pace is chosen by
constexpr double kMostError = 0.1;        // relative; larger ones count as this much where the pace is chosen
constexpr double kRidge = 1e-4;           // of the squares of each term
constexpr double kWhole = 1e-9;           // waves; less beyond a whole number is none
constexpr std::size_t kTails = 6;

// What a last wave leaves idle is a term of its own for each kind of wave: the second, third, fourth and later ones
// that find places beside the others, the first that waits for a place, and later ones.
std::size_t tail_of(double waves, std::int64_t resident) {
  const auto last = static_cast<std::int64_t>(std::ceil(waves - kWhole));
  if (last <= resident) return static_cast<std::size_t>(std::clamp<std::int64_t>(last - 2, 0, 3));
  return last == resident + 1 ? 4 : 5;
}

// Of a single wave nothing is lost but what the makespan says.
double idle_share(double waves, std::int64_t resident) {
  const double last = std::ceil(waves - kWhole);
  return waves <= 0 || (last <= 1 && resident >= 1) ? 0 : (last - waves) / waves;
}

// Coefficients for which rows times them are nearest to 1, and near those of `prior` where rows say nothing.
std::vector<double> least_squares(const std::vector<std::vector<double>>& rows,
                                  const std::vector<double>& prior) {
  const std::size_t count = prior.size();
  std::vector<double> scale(count), matrix(count * count), right(count);
  for (std::size_t i = 0; i < count; ++i) {
    double squares = 0;
    for (const std::vector<double>& row : rows) squares += row[i] * row[i];
    scale[i] = squares > 0 ? std::sqrt(static_cast<double>(rows.size()) / squares) : 1;
  }
  for (const std::vector<double>& row : rows) {
    const double rest = 1 - dot(row.data(), prior.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      if (row[i] == 0) continue;
      right[i] += scale[i] * row[i] * rest;
      for (std::size_t j = 0; j <= i; ++j) matrix[i * count + j] += scale[i] * row[i] * scale[j] * row[j];
    }
  }
  for (std::size_t i = 0; i < count; ++i) matrix[i * count + i] += kRidge * static_cast<double>(rows.size());
  if (!factor_cholesky(matrix, count)) throw std::logic_error("terms of times are not independent");
  std::vector<double> solved = solve_factored(matrix, std::move(right));
  for (std::size_t i = 0; i < count; ++i) solved[i] = prior[i] + scale[i] * solved[i];
  return solved;
}

}  // namespace

LaunchTimes::LaunchTimes(const std::vector<TimeModel::Config>& configs, std::vector<Timed> times,
                         std::int64_t sm_count, bool is_even)
    : configs_(configs), sm_count_(sm_count), is_even_(is_even), names_(configs.front().names.size()) {
  for (const Timed& one : times) {
    const std::vector<std::size_t>& names = configs_[one.launch.config].names;
    for (std::size_t i = 0; i < names.size(); ++i) names_[i].push_back(names[i]);
  }
  for (std::vector<std::size_t>& values : names_) {
    std::ranges::sort(values);
    values.erase(std::ranges::unique(values).begin(), values.end());
  }
  std::vector<Timed> some;
  const std::size_t count = std::min(times.size(), kMostOfPace);
  for (std::size_t i = 0; i < count; ++i) some.push_back(times[i * times.size() / count]);
  double least = std::numeric_limits<double>::infinity();
  Pace best{};
  for (const double saturating : kSaturating) {
    for (const double block_bytes : kBlockBytes) {
      const double error = fit(some, {saturating, block_bytes});
      if (error >= least) continue;
      least = error;
      best = {saturating, block_bytes};
    }
  }
  fit(times, best);
}

// In bytes of an SM's share of the whole bandwidth.
double LaunchTimes::work(const std::vector<BlockLoads>& loads, const Pace& pace) const {
  const double block_bytes = pace.block_bytes / pace.saturating;
  return pace.saturating *
         mean_makespan(loads, sm_count_, {pace.saturating, block_bytes, kIdleShare * block_bytes});
}

double LaunchTimes::work_us(const std::vector<BlockLoads>& loads) const { return work(loads, pace_) / unit_; }

std::vector<double> LaunchTimes::terms(const Launch& launch, double work_us) const {
  const TimeModel::Config& config = configs_[launch.config];
  std::vector<double> terms = {work_us, 1};
  terms.insert(terms.end(), config.numbers.begin(), config.numbers.end());
  for (std::size_t i = 0; i < names_.size(); ++i) {
    for (std::size_t j = 1; j < names_[i].size(); ++j) {
      const double is_it = config.names[i] == names_[i][j] ? 1 : 0;
      terms.push_back(is_it);
      for (const double number : config.numbers) terms.push_back(is_it * number);
    }
  }
  if (!is_even_) return terms;
  terms.resize(terms.size() + kTails);
  const std::int64_t resident = launch.loads->front().resident;
  terms[terms.size() - kTails + tail_of(launch.waves, resident)] =
      work_us * idle_share(launch.waves, resident);
  return terms;
}

double LaunchTimes::fit(const std::vector<Timed>& times, const Pace& pace) {
  pace_ = pace;
  std::map<const void*, double> known;
  unit_ = 0;
  for (const Timed& one : times) {
    const auto [found, is_new] = known.try_emplace(one.launch.loads.get());
    if (is_new) found->second = work(*one.launch.loads, pace);
    unit_ = std::max(unit_, found->second / one.time_us);
  }
  if (!(unit_ > 0)) unit_ = 1;
  std::vector<std::vector<double>> rows;
  for (const Timed& one : times) {
    rows.push_back(terms(one.launch, known.at(one.launch.loads.get()) / unit_));
    for (double& term : rows.back()) term /= one.time_us;
  }
  std::vector<double> prior(rows.front().size());
  prior.front() = 1;
  coefficients_ = least_squares(rows, prior);
  double error = 0;
  for (const std::vector<double>& row : rows) {
    const double off = dot(row.data(), coefficients_.data(), row.size()) - 1;
    error += std::min(off * off, kMostError * kMostError);
  }
  return error;
}

double LaunchTimes::time_us(const Launch& launch, double work_us) const {
  const std::vector<double> terms = this->terms(launch, work_us);
  return std::max(work_us, dot(terms.data(), coefficients_.data(), terms.size()));
}

void CubinTimes::fit(std::size_t threads) {
  models_.clear();
  if (times_.empty()) return;
  std::map<std::size_t, std::vector<LaunchTimes::Timed>> of_cubins;
  std::size_t cubins = 0;
  for (const LaunchTimes::Timed& one : times_) {
    const std::size_t cubin = configs_[one.launch.config].cubin;
    of_cubins[cubin].push_back(one);
    cubins = std::max(cubins, cubin + 1);
  }
  std::erase_if(of_cubins, [](const auto& of) { return of.second.size() < LaunchTimes::kLeastTimes; });
  model_of_.assign(cubins, of_cubins.size());
  std::vector<std::vector<LaunchTimes::Timed>> sets;
  for (auto& [cubin, times] : of_cubins) {
    model_of_[cubin] = sets.size();
    sets.push_back(std::move(times));
  }
  sets.push_back(times_);
  std::vector<std::optional<LaunchTimes>> fitted(sets.size());
  parallel_for(sets.size(), threads,
               [&](std::size_t i) { fitted[i].emplace(configs_, std::move(sets[i]), sm_count_, is_even_); });
  for (std::optional<LaunchTimes>& one : fitted) models_.push_back(std::move(*one));
}

std::size_t CubinTimes::model_of(std::size_t config) const {
  const std::size_t cubin = configs_[config].cubin;
  return cubin < model_of_.size() ? model_of_[cubin] : models_.size() - 1;
}

double CubinTimes::AtProblem::mean_of(const LaunchTimes::Launch& launch) {
  if (!launch.loads || times_.models_.empty()) return 0;
  const std::size_t model = times_.model_of(launch.config);
  const auto found = std::ranges::find_if(
      known_, [&](const Known& one) { return one.model == model && one.loads == launch.loads; });
  const double work_us =
      found != known_.end() ? found->work_us : times_.models_[model].work_us(*launch.loads);
  if (found == known_.end()) known_.push_back({model, launch.loads, work_us});
  return std::log(times_.models_[model].time_us(launch, work_us));
}

LaunchTimes::Loads SharedLoads::share(std::vector<BlockLoads> loads) {
  if (loads.empty()) return nullptr;
  const auto found =
      std::ranges::find_if(known_, [&](const LaunchTimes::Loads& one) { return *one == loads; });
  if (found != known_.end()) return *found;
  known_.push_back(std::make_shared<const std::vector<BlockLoads>>(std::move(loads)));
  return known_.back();
}

}  // namespace moetune
