#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "kernels/plan_interface.h"
#include "search/bound_defaults.h"
#include "soundness/sound_parts.h"
#include "soundness/soundness.h"

namespace moetune {
namespace {

// Only this says that a table is of other sources, and unknown here; any other BadInput that it is unsound.
class Outdated : public BadInput {
 public:
  using BadInput::BadInput;
};

void require(const std::string& wrong) {
  if (!wrong.empty()) throw BadInput(wrong);
}

// Judges the cells of one table.
class RangeJudge {
 public:
  RangeJudge(const FamilyRange& range, const KnownKernel& known) : range_(range), known_(known) {}

  void read_cubins(const RangeTable& table) {
    if (table.cells.empty()) return;
    for (const FamilyRange::Variant& variant : range_.variants) variants_.push_back(parse(variant.config));
  }

  Problem read_problem(const std::string& text) const {
    try {
      return stored_problem(*known_.kernel, text);
    } catch (const BadInput& error) {
      refuse_unknown(std::string("its cell: ") + error.what());
    }
  }

  void require_sound(const RangeCell& cell, const Problem& problem) {
    const bool is_first = problems_.empty();
    if (is_first || !are_alike(problem, *first_)) require_family(problem, cell.problem);
    if (is_first) first_ = problem;
    if (!problems_.insert(cell.problem).second) throw BadInput("it has two cells at " + cell.problem);
    const double least_us = cell.best_us;  // of all that was measured there
    if (const std::string wrong = too_fast(least_us, problem, *known_.kernel, range_.key.hardware, range_.key.timing);
        !wrong.empty())
      throw BadInput("at " + cell.problem + " " + wrong);
    require_choice(cell.config, problem);
    if (!cell.default_config.empty()) parse(cell.default_config);
  }

  // Checks tables of today's sources only: in others a cubin may have had another interface, and whoever loads one
  // checks again.
  void require_interfaces() {
    if (!known_.is_current || !first_) return;
    for (std::size_t i = 0; i < variants_.size(); ++i) {
      const auto launcher = known_.kernel->launcher(variants_[i], *first_, limits_);
      LaunchPlan plan;
      launcher->plan(launcher->plan_extents(known_.kernel->extents_of(*first_)), Call{}, plan);
      if (interface_digest(launcher->unit(), plan) != range_.variants[i].interface)
        throw BadInput("its cubin takes other parameters than " + range_.key.kernel + " passes for " +
                       range_.variants[i].config);
    }
  }

 private:
  // A search that compiles nothing stores none, and no server uses its table.
  bool has_cubins() const { return !range_.variants.empty(); }

  // Throws BadInput for today's sources; for others Outdated, as they may have said it in another way.
  [[noreturn]] void refuse_unknown(const std::string& why) const {
    if (known_.is_current) throw BadInput(why);
    throw Outdated(why);
  }

  const Config& parse(const std::string& text) {
    const auto known = configs_.find(text);
    if (known != configs_.end()) return known->second;
    try {
      return configs_.emplace(text, known_.space->parse_config(text)).first->second;
    } catch (const BadInput& error) {
      refuse_unknown(std::string("its configuration: ") + error.what());
    }
  }

  void require_family(const Problem& problem, const std::string& text) {
    const std::string family = known_.kernel->specialization(problem).text();
    const bool is_named = family == range_.key.family;
    // Today's name of what all cells of a table of other sources are may be another; two families are never one table.
    if (!is_named && (known_.is_current || (first_ && family != family_)))
      throw BadInput("its cell at " + text + " is of another family than it is stored for: " + family);
    if (!is_named) throw Outdated("it is of a family that is called " + family + " today");
    if (first_) return;
    family_ = family;
    bind(problem);
  }

  // For all cells of the family.
  void bind(const Problem& problem) {
    varying_ = known_.kernel->family_interface(problem)->varying_dimensions();
    std::vector<std::string> names;
    for (const std::string& name : varying_) names.push_back("problem." + name);
    try {
      limits_ = stored_limits(range_.key.hardware);
    } catch (const BadInput& error) {
      refuse_unknown(error.what());
    }
    rules_ = known_.space->bind_defaults(expression_environment(problem, limits_), names);
  }

  bool are_alike(const Problem& a, const Problem& b) const {
    return a.dims.size() == b.dims.size() &&
           std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), [&](const auto& mine, const auto& other) {
             return mine == other || std::ranges::find(varying_, mine.first) != varying_.end();
           });
  }

  void require_choice(const std::string& text, const Problem& problem) {
    const Config& config = parse(text);
    std::vector<std::int64_t> values;
    for (const std::string& name : varying_) values.push_back(rules_->number(problem.dims.at(name)));
    if (!rules_->can_run(config, values)) refuse_unknown(text + " cannot run at " + problem.text());
    require_cubin(text, problem);
  }

  void require_cubin(const std::string& text, const Problem& problem) {
    if (!has_cubins() || served_.contains(text)) return;
    if (units_.empty()) {
      for (const Config& variant : variants_) units_.push_back(unit_of(variant, problem));
    }
    if (std::ranges::find(units_, unit_of(parse(text), problem)) == units_.end())
      throw BadInput("it lacks the cubin of " + text);
    served_.insert(text);
  }

  CompileUnit unit_of(const Config& config, const Problem& problem) const {
    return known_.kernel->launcher(config, problem, limits_)->unit();
  }

  const FamilyRange& range_;
  const KnownKernel& known_;
  std::map<std::string, Config> configs_;
  std::vector<Config> variants_;
  std::vector<CompileUnit> units_;  // of these; the same at every problem of the family
  std::set<std::string> problems_, served_;
  std::optional<Problem> first_;
  std::string family_;
  std::vector<std::string> varying_;
  DeviceLimits limits_;
  std::unique_ptr<BoundDefaults> rules_;
};

}  // namespace

SoundRange read_sound_range(const FamilyRange& range, const KnownKernel& known) {
  SoundRange sound{.table = RangeTable::parse(range.table, "it"), .problems = {}, .outdated = ""};
  require(wrong_hardware(range.key.hardware));
  require(wrong_date(range.stored_at));
  if (known.kernel == nullptr) return sound;
  RangeJudge judge(range, known);
  const std::vector<RangeCell>& cells = sound.table.cells;
  std::vector<Problem> problems;
  try {
    for (const RangeCell& cell : cells) problems.push_back(judge.read_problem(cell.problem));
    sound.problems = std::move(problems);
    judge.read_cubins(sound.table);
    for (std::size_t i = 0; i < cells.size(); ++i) judge.require_sound(cells[i], sound.problems[i]);
    judge.require_interfaces();
  } catch (const Outdated& why) {
    sound.outdated = why.what();
  }
  return sound;
}

}  // namespace moetune
