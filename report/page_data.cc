#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/format.h"
#include "base/lists.h"
#include "base/version.h"
#include "kernels/registry.h"
#include "report/page.h"
#include "report/page_ranges.h"
#include "report/page_text.h"

namespace moetune {
namespace {

constexpr std::string_view kAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-";

Document rounded(double value) { return page_number(value); }

class PageWriter {
 public:
  PageWriter(const Report& report, const PageBudget& budget) : report_(report), budget_(budget) {
    rows_ = static_cast<std::size_t>(std::ranges::count(report.workloads, 0, &WorkloadReport::folded_into));
    count_ = std::min(rows_, budget.workloads);
    most_trials_ = most_trials();
  }

  Document data();

 private:
  std::size_t most_trials() const;
  std::string clipped(const std::string& text) const { return page_text(text, budget_.text); }
  std::string named(const std::string& name) const { return page_name(name, budget_.text); }
  Document hardware_list() const;
  Document parameters(const ParameterReport& from) const;
  void add_kernel(std::size_t hardware, const KernelSection& kernel);
  Document workload(const WorkloadReport& one, std::size_t kernel) const;
  Document trials(const WorkloadReport& one, const std::vector<std::size_t>& shown, const Factors& factors,
                  std::size_t first_row);
  Document grids() const;
  std::size_t ranges_left_out() const;
  Document history(const WorkloadReport& one) const;
  Document timings(const WorkloadReport& one) const;
  std::size_t outcome_index(const std::string& outcome);

  const Report& report_;
  const PageBudget budget_;
  std::size_t rows_ = 0;         // workloads with a row of their own, which come first
  std::size_t count_ = 0;        // of these, those shown
  std::size_t most_trials_ = 0;  // of one of them
  Document kernels_ = Document::array();
  std::vector<Document> workloads_;
  std::vector<std::string> outcomes_;
};

// The most trials of one workload with which all together stay within the budget.
std::size_t PageWriter::most_trials() const {
  std::size_t low = 1, high = kMostShownTrials;
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count_; ++i) sum += std::min(report_.workloads[i].trials.shown.size(), middle);
    if (sum <= budget_.trials) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

std::size_t PageWriter::outcome_index(const std::string& outcome) {
  const std::string name = clipped(outcome);
  const auto at = std::find(outcomes_.begin(), outcomes_.end(), name);
  if (at != outcomes_.end()) return static_cast<std::size_t>(at - outcomes_.begin());
  outcomes_.push_back(name);
  return outcomes_.size() - 1;
}

Document PageWriter::hardware_list() const {
  Document list = Document::array();
  for (const HardwareSection& section : report_.hardware) {
    Document ceilings = Document::array();
    for (const CeilingFigure& figure : kCeilingFigures) {
      const std::optional<double>& value = section.ceilings.*figure.value;
      const char* const unit = figure.unit == Unit::us ? "us" : figure.unit == Unit::tb_s ? "tb_s" : "tflop_s";
      if (value && !figure.of_machine) ceilings.push_back({figure.title, rounded(*value), unit});
    }
    list.push_back({{"title", named(hardware_title(section.hardware))}, {"ceilings", std::move(ceilings)}});
  }
  return list;
}

Document PageWriter::parameters(const ParameterReport& from) const {
  if (from.trials == 0 || from.importance.main.empty()) return nullptr;
  Document factors = Document::array(), main = Document::array(), pairs = Document::array(), maps = Document::array();
  for (const Factor& factor : from.factors) {
    Document levels = Document::array();
    for (const std::string& level : factor.levels) levels.push_back(clipped(level));
    factors.push_back({clipped(factor.name), std::move(levels)});
  }
  for (const MainEffect& effect : from.importance.main) {
    main.push_back({effect.factor, rounded(effect.share), gathered(effect.by_level, rounded)});
  }
  for (const Interaction& pair : from.importance.pairs) {
    if (pairs.size() < 20) pairs.push_back({pair.first, pair.second, rounded(pair.share)});
  }
  for (const HeatMap& map : from.maps) {
    Document cells = Document::array();
    for (const HeatCell& cell : map.cells)
      cells.push_back(cell.trials == 0 ? Document::array()
                                       : Document{cell.trials, rounded(cell.best), rounded(cell.mean)});
    maps.push_back({{"first", map.first}, {"second", map.second}, {"cells", std::move(cells)}});
  }
  return {{"trials", from.trials},         {"explained", rounded(from.importance.explained)},
          {"factors", std::move(factors)}, {"main", std::move(main)},
          {"pairs", std::move(pairs)},     {"maps", std::move(maps)}};
}

// The trials of a workload that the page shows: evenly, the best of them always.
std::vector<std::size_t> shown_trials(const TrialSeries& series, std::size_t most) {
  std::vector<std::size_t> shown = evenly_spaced(series.shown.size(), most);
  std::size_t best = series.shown.size();
  for (std::size_t i = 0; i < series.shown.size(); ++i) {
    const bool timed = series.shown[i].time_us > 0;
    if (timed && (best == series.shown.size() || series.shown[i].time_us < series.shown[best].time_us)) best = i;
  }
  if (best != series.shown.size() && !std::binary_search(shown.begin(), shown.end(), best))
    shown.insert(std::upper_bound(shown.begin(), shown.end(), best), best);
  return shown;
}

void PageWriter::add_kernel(std::size_t hardware, const KernelSection& kernel) {
  const std::size_t index = kernels_.size();
  std::vector<std::string> configs;
  std::map<std::size_t, std::vector<std::size_t>> shown;
  Document members = Document::array();
  for (const std::size_t i : kernel.workloads) {
    if (i >= count_) continue;
    members.push_back(i);
    shown[i] = shown_trials(report_.workloads[i].trials, most_trials_);
    for (const std::size_t t : shown[i]) configs.push_back(report_.workloads[i].trials.shown[t].config);
  }
  const Factors factors = factors_of(configs);
  std::size_t row = 0;
  for (const auto& [i, positions] : shown) {
    workloads_[i] = workload(report_.workloads[i], index);
    workloads_[i]["trials"] = trials(report_.workloads[i], positions, factors, row);
    row += positions.size();
  }
  Document names = Document::array();
  for (const Factor& factor : factors.factors) {
    Document levels = Document::array();
    for (const std::string& level : factor.levels) levels.push_back(clipped(level));
    names.push_back({clipped(factor.name), std::move(levels)});
  }
  kernels_.push_back({{"name", named(kernel.kernel)},
                      {"hardware", hardware},
                      {"workloads", std::move(members)},
                      {"factors", std::move(names)},
                      {"parameters", parameters(kernel.parameters)}});
}

// A letter for each parameter, two where it has more values than letters; "!" and the text for one that is unlike the
// others.
std::string code_of(const std::vector<Level>& levels, const Factors& factors) {
  std::string code;
  for (std::size_t f = 0; f < levels.size(); ++f) {
    if (factors.factors[f].levels.size() > kAlphabet.size()) code += kAlphabet[levels[f] / kAlphabet.size()];
    code += kAlphabet[levels[f] % kAlphabet.size()];
  }
  return code;
}

Document PageWriter::trials(const WorkloadReport& one, const std::vector<std::size_t>& shown, const Factors& factors,
                            std::size_t first_row) {
  Document list = Document::array();
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const ShownTrial& trial = one.trials.shown[shown[i]];
    const std::optional<std::vector<Level>>& levels = factors.rows[first_row + i];
    const double spread = trial.time_us > 0 ? 50 * (trial.high_us - trial.low_us) / trial.time_us : 0;
    list.push_back({trial.number, rounded(trial.time_us),
                    parse_stored(format("%.2f", std::isfinite(spread) ? spread : 0)),
                    parse_stored(format("%.4g", trial.device_s)), outcome_index(trial.outcome), trial.contended ? 1 : 0,
                    levels ? code_of(*levels, factors) : "!" + clipped(trial.config)});
  }
  return list;
}

std::vector<std::string> notes_of(const WorkloadReport& one) {
  std::vector<std::string> notes = workload_notes(one);
  if (one.recorded()) notes.push_back("recorded");
  return notes;
}

double flops_of(const Cost& cost) { return cost.flops.bf16 + cost.flops.fp16 + cost.flops.e4m3 + cost.flops.fp32; }

std::string rate_of(const StoredResult& stored) {
  const Rate rate = stored.rate();
  if (!(rate.value > 0)) return "";
  return format(rate.unit == Unit::tflop_s ? "%.3g TFLOP/s" : "%.3g TB/s", rate.value);
}

std::string origin_line(const Origin& origin) {
  std::string text = origin.strategy;
  if (origin.trials) text += ", " + std::to_string(*origin.trials) + " trials";
  if (!origin.device.empty()) text += (text.empty() ? "" : ", ") + origin.device;
  return text;
}

Document PageWriter::workload(const WorkloadReport& one, std::size_t kernel) const {
  const StoredResult& stored = one.stored;
  const WorkloadKey& key = one.key();
  Document outcomes = Document::object(), best = Document::array(), stale = Document::array();
  for (const auto& [outcome, count] : stored.outcomes) {
    if (outcomes.size() < 16) outcomes[clipped(outcome)] = count;
  }
  for (const std::size_t at : evenly_spaced(one.trials.best.size(), 500)) {
    const BestSoFar& point = one.trials.best[at];
    best.push_back({point.number, rounded(point.device_s), rounded(point.time_us)});
  }
  for (const std::string& reason : one.stale) stale.push_back(clipped(reason));
  Document document = {{"key", stored.workload.id},
                       {"kernel", kernel},
                       {"problem", clipped(key.problem)},
                       {"brief", clipped(brief_problem(key.kernel, key.problem))},
                       {"family", clipped(one.family)},
                       {"config", clipped(stored.best_config)},
                       {"best", rounded(stored.best_us)},
                       {"low", rounded(one.low_us)},
                       {"high", rounded(one.high_us)},
                       {"default", rounded(stored.default_us)},
                       {"speedup", rounded(stored.speedup())},
                       {"gain", rounded(one.gain())},
                       {"roofline", rounded(stored.roofline)},
                       {"bound", clipped(stored.bound)},
                       {"rate", rate_of(stored)},
                       {"bytes", rounded(stored.cost.bytes())},
                       {"flops", rounded(flops_of(stored.cost))},
                       {"stored_at", clipped(one.stored_at)},
                       {"origin", clipped(origin_line(one.origin))},
                       {"driver", clipped(one.origin.driver)},
                       {"toolchain", clipped(key.toolchain)},
                       {"damage", clipped(stored.damage)},
                       {"tried", stored.trials},
                       {"total", one.trials.total}};
  document["before"] = nullptr;
  if (one.before) {
    document["before"] = {{"time", rounded(one.before->time_us)},
                          {"low", rounded(one.before->low_us)},
                          {"high", rounded(one.before->high_us)},
                          {"stored_at", clipped(one.before->stored_at)}};
  }
  document["timing"] = timing_name(key.timing);
  document["timings"] = timings(one);
  document["notes"] = notes_of(one);
  document["inherited_by"] = Document::array();
  for (const std::string& gpu : one.inherited_by) document["inherited_by"].push_back(clipped(gpu));
  document["stale"] = std::move(stale);
  document["outcomes"] = std::move(outcomes);
  document["best_so_far"] = std::move(best);
  document["history"] = history(one);
  return document;
}

Document PageWriter::history(const WorkloadReport& one) const {
  Document list = Document::array();
  for (const Generation& old : one.history) {
    if (list.size() == budget_.history) break;
    list.push_back({{"time", rounded(old.time_us)},
                    {"low", rounded(old.interval_low_us)},
                    {"high", rounded(old.interval_high_us)},
                    {"stored_at", clipped(old.stored_at)},
                    {"reason", clipped(old.reason)},
                    {"config", clipped(old.config)}});
  }
  return list;
}

// Rows of a timing's name, the winner's time and the default's there, and the fastest configuration with its time.
Document PageWriter::timings(const WorkloadReport& one) const {
  Document list = Document::array();
  for (const TimingResult& timing : one.timings())
    list.push_back({timing_name(timing.timing), rounded(timing.winner_us), rounded(timing.default_us),
                    clipped(timing.fastest), rounded(timing.fastest_us)});
  return list;
}

std::size_t PageWriter::ranges_left_out() const {
  const auto own = std::ranges::count_if(report_.ranges, [](const auto& one) { return !one.inherited_by; });
  return static_cast<std::size_t>(own) - std::min(static_cast<std::size_t>(own), budget_.ranges);
}

Document PageWriter::grids() const {
  Document list = Document::array();
  for (const FamilyGrid& grid : report_.grids) {
    if (list.size() == budget_.grids) break;
    Document cells = Document::array(), variants = Document::array();
    for (const std::optional<GridCell>& cell : grid.cells)
      cells.push_back(cell && cell->workload < count_ ? Document{cell->workload, cell->variant} : Document(nullptr));
    for (const std::string& variant : grid.variants) variants.push_back(clipped(variant));
    const std::string hardware = grid.hardware.substr(0, grid.hardware.find(','));
    list.push_back({{"kernel", named(grid.kernel)},
                    {"hardware", clipped(hardware)},
                    {"family", clipped(grid.family)},
                    {"rest", clipped(grid.rest)},
                    {"down", clipped(grid.down)},
                    {"across", clipped(grid.across)},
                    {"rows", grid.rows},
                    {"columns", grid.columns},
                    {"cells", std::move(cells)},
                    {"variants", std::move(variants)}});
  }
  return list;
}

Document PageWriter::data() {
  workloads_.resize(count_);
  for (std::size_t h = 0; h < report_.hardware.size(); ++h) {
    for (const KernelSection& kernel : report_.hardware[h].kernels) add_kernel(h, kernel);
  }
  Document next = Document::array();
  for (const Advice& advice : report_.advice) next.push_back({clipped(advice.command), clipped(advice.reason)});
  return {{"cache", clipped(std::filesystem::path(report_.cache).filename().string())},
          {"now", utc_text(report_.now)},
          {"version", version()},
          {"hardware", hardware_list()},
          {"kernels", std::move(kernels_)},
          {"workloads", std::move(workloads_)},
          {"outcomes", outcomes_},
          {"grids", grids()},
          {"ranges", page_ranges(report_, budget_, count_)},
          {"ranges_left_out", ranges_left_out()},
          {"next", std::move(next)},
          {"left_out", rows_ - count_}};
}

}  // namespace

std::string page_data(const Report& report, const PageBudget& budget) {
  const std::string json = PageWriter(report, budget).data().dump(-1, ' ', false, Document::error_handler_t::replace);
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<' || c == '>' || c == '&') {
      safe += format("\\u%04x", static_cast<unsigned>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace moetune
