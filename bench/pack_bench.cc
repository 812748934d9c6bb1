// Measures a pack's worth on untuned problems: for each random problem, the runtime's choice runs with the
// pack's own cubin, is checked against the reference and timed against the space's default in one duel. A
// problem outside the pack's families counts as the default, which is compiled and checked. Needs the pack's GPU and
// NVRTC.
//
//   pack_bench PACK [PROBLEMS [SEED [FOLDER [TIMING]]]]
//   pack_bench packs/h200.pack 60
//
// Prints a line a problem, then the geometric mean and the worst. FOLDER keeps compiled references between
// runs. TIMING says how launches follow each other in the duels (docs/ranges.md): chained, as deployed and as packs are
// tuned, unless it is overlapped or alone. Exits with 1 if an output is wrong.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "bench/bench_main.h"
#include "bench/pack_bench_problems.h"
#include "bench/stored_cubin.h"
#include "cache/cache.h"
#include "include/moetune.h"
#include "jobs/session/gpu_session.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "tuner/child_roles.h"

namespace {

using namespace moetune;
using bench::DecodeTraffic;

constexpr char kKernel[] = "decode_attention";
constexpr double kMostKvBytes = 16e9;
constexpr int kRounds = 15;

void check(moetune_status status) {
  if (status != MOETUNE_OK) throw std::runtime_error(moetune_last_error());
}

// A pack as a server opens it, and as a file of cubins.
class Served {
 public:
  explicit Served(const std::string& pack) : files_(Cache::open(pack, Cache::Mode::read_only)) {
    const char* const paths[] = {pack.c_str()};
    const moetune_open_options options{sizeof options, paths, 1, 0, 0};
    check(moetune_open(&options, &runtime_));
  }
  ~Served() { moetune_close(runtime_); }
  Served(const Served&) = delete;

  struct Choice {
    std::string config, kind;
    Blob cubin;
  };

  // nullopt for a miss.
  std::optional<Choice> choose(const Kernel& kernel, const Problem& problem, std::int64_t total) {
    const std::string specialization = kernel.specialization(problem).text();
    moetune_family* const family = open_family(specialization);
    if (family == nullptr) return std::nullopt;
    const Extents extents = kernel.extents_of(problem);
    moetune_choice choice;
    const moetune_status status = moetune_pick(family, extents.begin(), extents.size(), total, &choice);
    if (status == MOETUNE_NOT_TUNED) return std::nullopt;
    check(status);
    std::string text(8192, '\0');
    check(moetune_explain(family, &choice, text.data(), text.size(), nullptr));
    const nlohmann::json explained = parse_json(text.c_str(), "moetune_explain");
    return Choice{explained.at("config"), explained.at("kind"),
                  bench::stored_cubin(files_, kKernel, specialization, explained.at("cubin"))};
  }

 private:
  moetune_family* open_family(const std::string& specialization) {
    const auto [found, is_new] = families_.emplace(specialization, nullptr);
    if (!is_new) return found->second;
    const moetune_status status = moetune_family_open(runtime_, kKernel, specialization.c_str(), &found->second);
    if (status != MOETUNE_NOT_TUNED) check(status);
    return found->second;
  }

  Cache files_;
  moetune_runtime* runtime_ = nullptr;
  std::map<std::string, moetune_family*> families_;
};

struct Figures {
  std::string kind;
  double chosen_us = 0, default_us = 0;
  std::string wrong;  // why an output is wrong; empty if all are right

  double gain() const { return default_us / chosen_us; }
};

Candidate stored(const Session& session, const Kernel& kernel, const Served::Choice& choice) {
  const Config config = session.space_file()->parse_config(choice.config);
  auto build = std::make_shared<Build>();
  build->outcome = Outcome::ok;
  build->cubin = choice.cubin;
  return {config, kernel.plan(config, session.problem(), session.info().limits), std::move(build)};
}

// Why the candidate's outputs are wrong, on inputs of a seed of their own; empty if all are right.
std::string check_outputs(Session& session, const Candidate& candidate) {
  session.device().open(*session.kernel(), session.problem(), 1);
  const TrialResult checked = session.device().verify(candidate, 2, 60);
  return checked.outcome == Outcome::ok ? "" : std::string(outcome_name(checked.outcome)) + ": " + checked.message;
}

Figures measure(Served& served, const DecodeTraffic& traffic, const std::string& folder, Timing timing) {
  JobTarget target;
  target.workload = {.kernel = kKernel, .problem = traffic.problem, .preset = traffic.preset};
  target.cache.path = folder + "/pack_bench.db";
  Session session = gpu_session(target, {}, "pack_bench", {});
  const Kernel& kernel = *session.kernel();
  const std::optional<Served::Choice> choice = served.choose(kernel, session.problem(), traffic.total);
  const Candidate default_candidate = session.compile(session.default_config().value());
  const Candidate chosen = choice ? stored(session, kernel, *choice) : default_candidate;
  Figures figures{.kind = choice ? choice->kind : "no family", .wrong = check_outputs(session, chosen)};
  if (chosen.config == default_candidate.config) {
    figures.chosen_us = figures.default_us = 1;  // the default against itself
    return figures;
  }
  const std::vector<TrialResult> duel = session.device().duel({chosen, default_candidate}, {kRounds, timing});
  for (const TrialResult& one : duel) {
    if (one.outcome == Outcome::ok) continue;
    throw std::runtime_error(traffic.problem + ": " + std::string(outcome_name(one.outcome)) + ": " + one.message);
  }
  figures.chosen_us = duel[0].measurement.median_us;
  figures.default_us = duel[1].measurement.median_us;
  return figures;
}

Timing timing_named(const std::string& name) {
  if (const std::optional<Timing> timing = timing_from_name(name)) return *timing;
  throw BadInput("TIMING is chained, overlapped or alone, not '" + name + "'");
}

void run(int argc, char** argv) {
  if (argc < 2 || argc > 6) throw BadInput("usage: pack_bench PACK [PROBLEMS [SEED [FOLDER [TIMING]]]]");
  const std::size_t count = argc > 2 ? std::stoul(argv[2]) : 60;
  const std::uint64_t seed = argc > 3 ? std::stoul(argv[3]) : 1;
  const std::string folder = argc > 4 ? argv[4] : std::filesystem::temp_directory_path().string();
  const Timing timing = timing_named(argc > 5 ? argv[5] : "chained");
  Served served(argv[1]);
  double logs = 0, worst = 1e9;
  std::size_t wrong = 0;
  for (const DecodeTraffic& traffic : bench::random_decode_traffic(count, seed, kMostKvBytes)) {
    const Figures figures = measure(served, traffic, folder, timing);
    logs += std::log(figures.gain());
    worst = std::min(worst, figures.gain());
    wrong += !figures.wrong.empty();
    std::printf("%-20s %-50s %-18s %9.2f us  %5.3fx  %s\n", traffic.preset.c_str(), traffic.problem.c_str(),
                figures.kind.c_str(), figures.chosen_us, figures.gain(), figures.wrong.c_str());
    std::fflush(stdout);
  }
  std::printf("%zu problems, %s: %.3fx the default's speed (geometric mean), worst %.3fx, all checked, %zu wrong\n",
              count, std::string(timing_name(timing)).c_str(), std::exp(logs / static_cast<double>(count)), worst,
              wrong);
  if (wrong > 0) throw std::runtime_error("an output is wrong");
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  if (moetune::is_child_call(argc, argv, status)) return status;
  return moetune::bench::run_main("pack_bench", [&] { run(argc, argv); });
}
