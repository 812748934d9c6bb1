// Measures what range tables lose at untuned shapes. bench/ranges runs one such process per GPU and deals the shapes.
//
//   range_shapes REQUEST
//
// REQUEST is JSON: kernel, preset, problem and over as of `moetune search --over`; tables, the caches that hold the
// family's table for this hardware and timing each; device; cache, a file of its own for what it measures; shapes and
// seed of the unseen shapes; budget, trials of a shape's own search; threads, of the compiler (0: one a core); timing;
// compile, false for a recording that compiles nothing; inherit, true for tables of another GPU of the same
// architecture where a file has none of this one, as a server takes them.
//
// Prints a JSON document a line. The first has the problems that are cells of no table. Then it reads problems, a line
// each, and answers each: the tables' choices (looked up as a server does it, and verified), the default and the winner
// of the shape's own search meet in one duel. A configuration that several of them name runs once. Ends with its
// standard input. The tables' caches are only read.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "bench/bench_main.h"
#include "cache/cache.h"
#include "jobs/range/cell_meter.h"
#include "jobs/range/picks.h"
#include "jobs/range/plan.h"
#include "ranges/range_table.h"
#include "tuner/child_roles.h"
#include "tuner/history.h"

namespace {

using namespace moetune;
using nlohmann::json;

// A table and how a server finds its cells.
class Served {
 public:
  Served(const std::string& file, const Kernel& kernel, const DeviceLimits& limits, const RangeKey& key, bool inherit)
      : table_(table_in(file, key, inherit)), picks_(kernel, limits, table_) {}

  const RangeTable& table() const { return table_; }

  std::string config_at(const Problem& problem) const {
    const std::optional<RangePicks::Pick> pick = picks_.at(problem);
    return pick ? pick->config : "";
  }

 private:
  // Finds the table of this timing and this hardware or, with `inherit`, of the one GPU that it inherits from. Among
  // several, takes the one made from these sources with this toolchain.
  static RangeTable table_in(const std::string& file, const RangeKey& key, bool inherit) {
    const Cache cache = Cache::open(file, Cache::Mode::read_only);
    const std::string what = "range table of " + key.kernel + " " + key.family;
    std::vector<FamilyRange> found = cache.ranges.of_family(key.kernel, key.family);
    std::erase_if(found, [](const FamilyRange& range) { return range.table.empty(); });
    if (found.empty()) throw BadInput(file + " has no " + what);
    const auto is_of_this = [&](const FamilyRange& range) { return range.key.hardware.text() == key.hardware.text(); };
    const bool inherits = inherit && std::ranges::none_of(found, is_of_this);
    std::erase_if(found, [&](const FamilyRange& range) {
      const bool is_alike = range.key.hardware.compute_capability == key.hardware.compute_capability;
      return !(inherits ? is_alike : is_of_this(range)) || range.key.timing != key.timing;
    });
    const std::string where = key.hardware.name + ", " + std::string(timing_name(key.timing));
    if (found.empty()) throw BadInput(file + " has no " + what + " for " + where + ", only for others");
    if (found.size() > 1) {
      std::erase_if(found, [&](const FamilyRange& range) {
        return range.key.source_digest != key.source_digest || range.key.toolchain != key.toolchain;
      });
    }
    if (found.size() != 1)
      throw BadInput(file + " has several tables for " + where + ", not one of them of these sources: " + what);
    return RangeTable::parse(found.front().table, file);
  }

  const RangeTable table_;
  RangePicks picks_;
};

Timing timing_of(const json& request) {
  const std::string name = request.value("timing", "chained");
  if (const std::optional<Timing> timing = timing_from_name(name)) return *timing;
  throw BadInput("timing is chained, overlapped or alone, not '" + name + "'");
}

TuneSettings settings_of(const json& request) {
  TuneSettings settings;
  settings.seed = request.value("seed", std::uint64_t{7});
  settings.budget = request.value("budget", std::size_t{100});
  settings.policy.timing = timing_of(request);
  return settings;
}

// Configurations that meet in a duel, each once.
struct Meeting {
  std::vector<std::string> configs;
  std::vector<double> times;

  void add(const std::string& config) {
    if (!config.empty() && std::ranges::find(configs, config) == configs.end()) configs.push_back(config);
  }
  double time_of(const std::string& config) const {
    const auto found = std::ranges::find(configs, config);
    return found == configs.end() ? 0 : times[static_cast<std::size_t>(found - configs.begin())];
  }
};

class Shapes {
 public:
  explicit Shapes(const json& request)
      : settings_(settings_of(request)),
        workload_{.kernel = request.at("kernel").get<std::string>(),
                  .problem = request.value("problem", ""),
                  .preset = request.value("preset", "")},
        session_(choose_device(request.value("device", "auto"), workload_,
                               {.replay = {.may_stand_in = true}, .family = true}),
                 {.cache = {.path = request.at("cache").get<std::string>()},
                  .no_compile = !request.value("compile", true),
                  .threads = request.value("threads", std::uint64_t{0}),
                  .timing = settings_.policy.timing},
                 context_.events),
        base_(problem_of(*session_.kernel(), workload_)),
        plan_(session_, base_, request.at("over").get<std::string>()),
        meter_(session_, settings_, context_) {
    const WorkloadKey& own = session_.key();
    const RangeKey key{own.kernel,    session_.kernel()->specialization(base_).text(),
                       own.hardware,  own.source_digest,
                       own.toolchain, own.timing};
    for (const std::string& file : request.at("tables").get<std::vector<std::string>>())
      tables_.emplace_back(file, *session_.kernel(), session_.info().limits, key, request.value("inherit", false));
    if (session_.recording() == nullptr) plan_.fill();
    for (const Served& served : tables_) {
      for (const RangeCell& cell : served.table().cells) plan_.restore(cell.problem);
    }
  }

  json list(std::size_t count) const {
    json problems = json::array();
    for (const Problem& problem : plan_.unseen(count, settings_.seed)) problems.push_back(problem.text());
    return {{"device", session_.info().key.name}, {"recorded", session_.info().recorded}, {"shapes", problems}};
  }

  json measure(const std::string& text) {
    const Kernel& kernel = *session_.kernel();
    const Problem problem = kernel.parse(text);
    kernel.check(problem);
    session_.move_to(problem);
    const TuneResult own = search();
    meter_.begin(session_.request(settings_).kernel != nullptr);
    const std::string best = own.best ? own.best->config.text() : "";
    const std::string space_default = session_.default_config() ? session_.default_config()->text() : "";
    std::vector<std::string> picks;
    for (const Served& served : tables_) picks.push_back(served.config_at(problem));
    Meeting meeting;
    for (const std::string& pick : picks) meeting.add(pick);
    meeting.add(best);
    meeting.add(space_default);
    bool contended = false;
    meeting.times = meter_.duel(meeting.configs, contended);
    json answer{{"problem", text},
                {"contended", contended},
                {"own", best},
                {"own_us", meeting.time_of(best)},
                {"default_us", meeting.time_of(space_default)},
                {"tables", json::array()}};
    for (const std::string& pick : picks) {
      const bool is_right = !pick.empty() && meeting.time_of(pick) > 0 && meter_.is_right(pick);
      answer["tables"].push_back({{"config", pick}, {"us", meeting.time_of(pick)}, {"right", is_right}});
    }
    return answer;
  }

 private:
  TuneResult search() {
    TuneRequest tuning = session_.request(settings_);
    tuning.store_winner = false;
    const TransferContext transfer{session_.kernel(), session_.space_file(), session_.info().limits};
    tuning.histories = histories_for(*session_.cache(), session_.key(), session_.space(), &transfer);
    return session_.tune(tuning, {});
  }

  const TuneSettings settings_;
  const JobContext context_;
  const WorkloadSpec workload_;
  Session session_;
  const Problem base_;
  RangePlan plan_;
  CellMeter meter_;
  std::deque<Served> tables_;
};

void print(const json& document) { std::cout << document.dump() << std::endl; }

void run(int argc, char** argv) {
  if (argc != 2) throw BadInput("usage: range_shapes REQUEST, which is JSON");
  const json request = parse_json(argv[1], "REQUEST");
  try {
    Shapes shapes(request);
    print(shapes.list(request.value("shapes", std::size_t{40})));
    for (std::string line; std::getline(std::cin, line);) {
      try {
        print(shapes.measure(line));
      } catch (const TooLittleMemory& error) {
        print({{"problem", line}, {"left_out", error.what()}});
      } catch (const BadInput& error) {
        print({{"problem", line}, {"left_out", error.what()}});
      }
    }
  } catch (const json::exception& error) {
    throw BadInput("REQUEST: " + json_error_text(error));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  if (moetune::is_child_call(argc, argv, status)) return status;
  return moetune::bench::run_main("range_shapes", [&] { run(argc, argv); });
}
