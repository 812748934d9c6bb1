#include "base/error.h"
#include "cli/gpu_command.h"
#include "cli/text.h"

namespace moetune {
namespace {

class BenchCommand : public GpuCommand {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override {
    return "time the stored winner, the default and the reference together";
  }
  std::string_view details() const override {
    return "All are measured in interleaved rounds, so that drift hits them alike. The winner's stored cubin "
           "is\n"
           "loaded as it is, never compiled again. One that does not compile now has a row that says so.\n"
           "Launches overlap with the one before where the kernel allows it; 'winner alone' starts each once "
           "the\n"
           "one before has ended.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  std::uint64_t rounds_ = 41;
};

void BenchCommand::declare(OptionTable& table) {
  declare_common(table, "tile=64,stages=3,...: one more to compare; the rest by default", "of the inputs");
  table.whole("rounds", rounds_, 1, 100'000, "samples of each");
}

struct Contestant {
  std::string label;
  Candidate candidate;
  bool stored = false;
  TrialResult result = {};  // of one that does not compile: that; else of the duel
};

template <typename Build>
Contestant built(const std::string& label, const Config& config, const Build& build) {
  try {
    return {label, build()};
  } catch (const BrokenEnvironment& error) {
    const std::string message = error.what();
    return {.label = label,
            .candidate = {.config = config},
            .result = {.outcome = Outcome::compile_failed, .message = message.substr(0, message.find('\n'))}};
  }
}

// The same, started only once the kernel before it has ended; none where it never starts earlier.
std::optional<Candidate> without_overlap(Candidate candidate) {
  Launch& first = candidate.plan.launches.front();
  if (!first.programmatic_dependent) return std::nullopt;
  first.programmatic_dependent = false;
  return candidate;
}

std::vector<Contestant> contestants(Session& session, const std::optional<std::string>& config,
                                    const Output& output) {
  std::vector<Contestant> all;
  all.push_back({"winner", stored_candidate(session, output), true});
  if (std::optional<Candidate> alone = without_overlap(all.front().candidate))
    all.push_back({"winner alone", *std::move(alone), true});
  const auto add = [&](const std::string& label, const Config& chosen) {
    all.push_back(built(label, chosen, [&] { return session.compile(chosen); }));
  };
  if (config) add("config", session.parse_config(*config));
  if (session.default_config()) add("default", *session.default_config());
  // In the problem's own types, as a plain implementation would be written; the exact reference writes f32.
  all.push_back(built("reference", {}, [&] {
    return session.compile(
        session.kernel()->reference(Reference::baseline, session.problem(), session.info().limits), Config{},
        "the reference");
  }));
  return all;
}

// Those that compiled meet in one duel. False where a stop request came first.
bool measure(Session& session, std::vector<Contestant>& all, std::uint64_t seed, int rounds) try {
  session.device().open(*session.kernel(), session.problem(), seed);
  std::vector<Candidate> candidates;
  for (const Contestant& contestant : all) {
    if (contestant.result.outcome == Outcome::ok) candidates.push_back(contestant.candidate);
  }
  std::vector<TrialResult> results = session.device().duel(candidates, rounds);
  auto next = results.begin();
  for (Contestant& contestant : all) {
    if (contestant.result.outcome == Outcome::ok) contestant.result = std::move(*next++);
  }
  return true;
} catch (const Stopped&) {
  return false;
}

Document row_document(const Session& session, const Contestant& contestant) {
  const TrialResult& result = contestant.result;
  const double time = result.measurement.median_us;
  const bool timed = has_time(result.outcome);
  const std::optional<double> floor = session.floor_us();
  const std::string config = contestant.candidate.config.text();
  const bool has_cubin = contestant.candidate.build != nullptr;
  return {{"what", contestant.label},
          {"config", config.empty() ? Document(nullptr) : Document(config)},
          {"cubin",
           has_cubin ? Document(cubin_source(contestant.candidate, contestant.stored)) : Document(nullptr)},
          {"outcome", outcome_name(result.outcome)},
          {"message", result.message},
          {"time_us", timed ? number_or_null(time) : nullptr},
          {"interval_us",
           {number_or_null(result.measurement.low_us), number_or_null(result.measurement.high_us)}},
          {"tb_s", timed ? number_or_null(session.bytes() / time * 1e-6) : nullptr},
          {"roofline", timed && floor ? number_or_null(*floor / time) : nullptr}};
}

std::vector<std::string> row_cells(const Session& session, const Contestant& contestant, double winner_us) {
  const TrialResult& result = contestant.result;
  if (!has_time(result.outcome)) {
    return {contestant.label, std::string(outcome_name(result.outcome)), "", "", "", "", "", result.message};
  }
  const Measurement& m = result.measurement;
  const std::optional<double> floor = session.floor_us();
  return {contestant.label,
          time_text(m.median_us),
          time_text(m.low_us) + " to " + time_text(m.high_us),
          format("%.3f", session.bytes() / m.median_us * 1e-6),
          floor ? percent_text(*floor / m.median_us) : "-",
          winner_us > 0 ? format("%.2f×", m.median_us / winner_us) : "-",
          cubin_source(contestant.candidate, contestant.stored),
          contestant.candidate.config.text()};
}

int BenchCommand::run(Output& output, std::stop_token stop) {
  Session session = open(output, stop);
  std::vector<Contestant> all = contestants(session, config(), output);
  const bool measured = !stop.stop_requested() && measure(session, all, seed(), static_cast<int>(rounds_));
  Document document = workload_document(session);
  document["programs_compiled"] = session.programs_compiled();
  document["rows"] = Document::array();
  document["interrupted"] = !measured;
  if (!measured) {
    output.note("Interrupted before anything was measured.");
    output.document(document);
    return kNothingFound;
  }

  Table table({"", "time", "95% interval", "TB/s", "roofline", "vs winner", "cubin", "config"},
              {1, 2, 3, 4, 5});
  const TrialResult& winner = all.front().result;
  for (const Contestant& contestant : all) {
    table.add(row_cells(session, contestant, winner.measurement.median_us));
    document["rows"].push_back(row_document(session, contestant));
  }
  output.result() << session.kernel_name() << " " << session.problem().text() << "\n"
                  << table.text("  ") << programs_text(session);
  output.document(document);
  return has_time(winner.outcome) ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace moetune
