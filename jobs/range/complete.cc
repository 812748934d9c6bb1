#include "jobs/range/complete.h"

#include <algorithm>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "base/error.h"
#include "jobs/range/picks.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "soundness/stored_key.h"
#include "tuner/compile/compile_pool.h"
#include "tuner/compile/launchable.h"
#include "tuner/trial_record.h"

namespace moetune {
namespace {

class TableCompleter {
 public:
  TableCompleter(Cache& cache, std::stop_token stop) : cache_(cache), stop_(std::move(stop)) {}

  CompletedTable complete(const FamilyRange& range) {
    CompletedTable done{.range = range};
    try {
      if (range.key.hardware.origin != "gpu") throw BadInput("it is of a recording");
      add_defaults(range, done);
    } catch (const BadInput& error) {
      done.left_out = error.what();
    }
    return done;
  }

 private:
  struct Architecture {
    explicit Architecture(const std::string& name)
        : compiler({.architecture = name}), pool(compiler, std::max(1u, std::thread::hardware_concurrency())) {}
    Compiler compiler;
    CompilePool pool;
  };

  Architecture& architecture(const HardwareKey& hardware) {
    std::unique_ptr<Architecture>& known = architectures_[hardware.compute_capability];
    if (known == nullptr) {
      known = std::make_unique<Architecture>(architecture_name(hardware.compute_capability));
      known->pool.watch(stop_, [] {});
    }
    return *known;
  }

  void add_defaults(const FamilyRange& range, CompletedTable& done) {
    const Kernel& kernel = find_kernel(range.key.kernel);
    const Space& space = shared_space(kernel.name());
    Architecture& here = architecture(range.key.hardware);
    if (here.compiler.toolchain() != range.key.toolchain)
      throw BadInput("it was compiled by " + range.key.toolchain + ", and here is " + here.compiler.toolchain());
    const DeviceLimits limits = stored_limits(range.key.hardware);
    const RangeTable table = RangeTable::parse(range.table, "a stored range table");
    std::vector<Candidate> missing;
    for (const RangePicks::Default& one : defaults_served(kernel, limits, table)) {
      const Config config = space.parse_config(one.config);
      Plan plan = kernel.plan(config, one.problem, limits);
      ++done.defaults;
      const auto is_same = [&](const Candidate& other) { return other.plan.unit == plan.unit; };
      if (!is_stored(kernel, range, one.problem, limits, plan.unit) && std::ranges::none_of(missing, is_same))
        missing.push_back({config, std::move(plan), nullptr});
    }
    if (missing.empty()) return;
    compile(here.pool, limits, missing, done);
    if (!stop_.stop_requested()) store(range, missing, done);
  }

  static bool is_stored(const Kernel& kernel, const FamilyRange& range, const Problem& problem,
                        const DeviceLimits& limits, const CompileUnit& unit) {
    const Space& space = shared_space(kernel.name());
    return std::ranges::any_of(range.variants, [&](const FamilyRange::Variant& variant) {
      return kernel.launcher(space.parse_config(variant.config), problem, limits)->unit() == unit;
    });
  }

  // Leaves in `missing` what was built and can be launched.
  void compile(CompilePool& pool, const DeviceLimits& limits, std::vector<Candidate>& missing, CompletedTable& done) {
    std::vector<CompileUnit> units;
    for (const Candidate& one : missing) units.push_back(one.plan.unit);
    const std::vector<BuildPtr> builds = pool.build_now(units);
    if (stop_.stop_requested()) return;
    std::vector<Candidate> built;
    for (std::size_t i = 0; i < missing.size(); ++i) {
      missing[i].build = builds[i];
      const std::string reason = builds[i]->outcome == Outcome::ok
                                     ? why_unlaunchable(missing[i].plan, *builds[i], limits)
                                     : "it does not compile: " + builds[i]->message;
      if (reason.empty())
        built.push_back(std::move(missing[i]));
      else
        done.refused.push_back(missing[i].config.text() + ": " + reason);
    }
    missing = std::move(built);
  }

  void store(const FamilyRange& range, const std::vector<Candidate>& built, CompletedTable& done) {
    RangeRecord record = cache_.ranges.record(range);
    record.progress = cache_.ranges.progress(range.key);
    for (const Candidate& one : built) {
      record.variants.push_back(to_winner(one, {}, {}, nullptr, 0, {}));
      done.added.push_back(one.config.text());
    }
    cache_.ranges.put(range.key, record);
  }

  Cache& cache_;
  std::stop_token stop_;
  std::map<int, std::unique_ptr<Architecture>> architectures_;
};

}  // namespace

void complete_tables(Cache& cache, const std::function<void(const CompletedTable&)>& each, std::stop_token stop) {
  TableCompleter completer(cache, stop);
  for (const FamilyRange& range : cache.ranges.all()) {
    const CompletedTable done = completer.complete(range);
    if (stop.stop_requested()) return;
    each(done);
  }
}

}  // namespace moetune
