// What was fast on one problem can run on its neighbours: only guesses at speed stand in the way.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/resources.h"
#include "kernels/registry.h"
#include "replay/shipped.h"
#include "search/space.h"

using namespace moetune;

namespace {

constexpr std::size_t kFastest = 5;  // of a recording

struct Recorded {
  const Kernel* kernel;
  Problem problem;
  DeviceLimits limits;
  std::vector<std::string> winners;
};

std::vector<Recorded> recorded() {
  std::vector<Recorded> all;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    const Recording recording = shipped.read();
    const Kernel* const kernel = known_kernel(recording.kernel);
    if (kernel == nullptr) continue;
    std::vector<ConfigId> order(recording.trials.size());
    for (ConfigId id = 0; id < order.size(); ++id) order[id] = id;
    std::erase_if(order, [&](ConfigId id) { return recording.trials[id].outcome != Outcome::ok; });
    std::sort(order.begin(), order.end(),
              [&](ConfigId a, ConfigId b) { return recording.trials[a].time_us < recording.trials[b].time_us; });
    order.resize(std::min(order.size(), kFastest));
    Recorded& one = all.emplace_back(Recorded{kernel, kernel->parse(recording.problem), recording.limits, {}});
    for (const ConfigId id : order) one.winners.push_back(recording.space.config(id).text());
  }
  return all;
}

Space space_of(const Kernel& kernel) {
  const std::string path = "spaces/" + kernel.name() + ".json";
  return Space::parse(read_resource(path), path);
}

struct Refused {
  std::size_t cannot_run = 0, by_a_guess = 0, all = 0;

  void count(const Space& space, const Recorded& from, const Problem& problem, const DeviceLimits& limits) {
    const Assignment environment = expression_environment(problem, limits);
    for (const std::string& text : from.winners) {
      const Config config = space.parse_config(text);
      const std::string reason = space.why_illegal(config, environment, Rules::must);
      CHECK_MESSAGE(reason.empty(), text << " at " << problem.text() << ": " << reason);
      ++all;
      cannot_run += !reason.empty();
      by_a_guess += !space.why_illegal(config, environment).empty();
    }
  }
};

}  // namespace

TEST_CASE("the winners of each recording can run at the problems of its family's other recordings") {
  const std::vector<Recorded> all = recorded();
  REQUIRE(all.size() > 1);
  Refused refused;
  for (const Recorded& from : all) {
    const Space space = space_of(*from.kernel);
    for (const Recorded& to : all) {
      const bool is_family = to.kernel == from.kernel && to.kernel->specialization(to.problem).text() ==
                                                             from.kernel->specialization(from.problem).text();
      if (is_family) refused.count(space, from, to.problem, to.limits);
    }
  }
  CHECK(refused.cannot_run == 0);
  CHECK(refused.by_a_guess * 5 > refused.all);  // a search at home would not look at them
}

TEST_CASE("one cubin with launch values of each shape's own costs less than 0.63% on each of four shapes") {
  std::map<std::string, std::map<std::string, double>> regrets;  // of a cubin, by problem
  std::set<std::string> problems;
  for (const ShippedRecording& shipped : list_shipped_recordings()) {
    const Recording recording = shipped.read();
    const Kernel& kernel = find_kernel(recording.kernel);
    const Problem problem = kernel.parse(recording.problem);
    if (kernel.name() != "decode_attention" || problem["q_heads"] != 32 || problem["kv_heads"] != 8) continue;
    problems.insert(recording.problem);
    const Space space = space_of(kernel);
    for (ConfigId id = 0; id < recording.trials.size(); ++id) {
      if (recording.trials[id].outcome != Outcome::ok) continue;
      const ConfigParts parts = split_config(recording.space.config(id), space.parameters());
      const double regret = recording.trials[id].time_us / recording.optimum_us();
      double& best = regrets[parts.compiled.text()].try_emplace(recording.problem, regret).first->second;
      best = std::min(best, regret);
    }
  }
  REQUIRE(problems.size() == 4);
  double least = HUGE_VAL;
  for (const auto& [cubin, by_problem] : regrets) {
    if (by_problem.size() < problems.size()) continue;
    double worst = 1;
    for (const auto& [name, regret] : by_problem) worst = std::max(worst, regret);
    least = std::min(least, worst);
  }
  CHECK(least < 1.0063);
}
