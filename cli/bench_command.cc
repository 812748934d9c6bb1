#include <algorithm>
#include <functional>

#include "base/error.h"
#include "cli/command.h"
#include "cli/event_text.h"
#include "cli/options.h"
#include "cli/profiling.h"
#include "cli/text.h"
#include "jobs/bench_job.h"

namespace moetune {
namespace {

class BenchCommand : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view summary() const override {
    return "time what is stored and serves, the default and the reference together";
  }
  std::string_view details() const override {
    return "All are measured in interleaved rounds, so that drift affects them all. The winner's stored cubin is\n"
           "loaded as it is, never compiled again. One that does not compile now has a row that says so.\n"
           "How launches follow each other (--timing): overlapped with the one before, if the kernel allows it;\n"
           "chained behind a small kernel that writes the fresh inputs, whose time is taken off; alone. The\n"
           "winner, or CONFIG where nothing is tuned, has a row for each of them. Of a shape that a range "
           "table serves\n"
           "the first row is the table's choice.\n"
           "--ncu and --nsys measure nothing: they write a script that has Nsight Compute look at the launches "
           "of what serves, or of CONFIG, or Nsight Systems at a bench of it, and print the command. "
           "`moetune report KERNEL --ncu FILE.csv` reads what the first finds.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  int write_script(Output& output, std::stop_token stop);

  BenchRequest request_;
  std::string timing_, profile_;
  std::optional<std::string> ncu_, nsys_;
};

void BenchCommand::declare(OptionTable& table) {
  declare_workload(table, request_.target.workload, true);
  table.text("config", "CONFIG", request_.config,
             "tile=64,stages=3,...: one more to compare, also where nothing is tuned; the rest by default");
  table.text("assume", "FIELD", request_.assume,
             "one more row for each, whose calls set this field: kv_settled, of steps over a KV cache");
  table.whole("seed", request_.seed, 0, 1'000'000'000, "of the inputs");
  declare_timing(table, timing_, "overlapped");
  declare_gpu(table, request_.target.device);
  declare_cache(table, request_.target.cache);
  table.span("quiet-wait", request_.quiet_wait_s, kQuietWaitDoc);
  table.whole("rounds", request_.rounds, 1, 100'000, "samples of each");
  table.word("profile", "WHAT", profile_, {"minimal", "roofline"},
             "what bounds the first row: the ceiling that binds (minimal), or each one with its share of the time");
  table.text("ncu", "FILE", ncu_, "write a script for Nsight Compute instead");
  table.text("nsys", "FILE", nsys_, "write a script for Nsight Systems instead");
}

std::vector<std::string> row_cells(const Subject& subject, const BenchRow& row, double first_us) {
  const TrialResult& result = row.result;
  if (!has_time(result.outcome)) {
    return {row.what, std::string(outcome_name(result.outcome)), "", "", "", "", "", "", result.message};
  }
  const Measurement& m = result.measurement;
  return {row.what,
          time_text(m.median_us),
          time_text(m.low_us) + " to " + time_text(m.high_us),
          m.sm_clock_mhz == 0 ? "-" : std::to_string(m.sm_clock_mhz) + (m.settled ? "" : " unsettled"),
          format("%.3f", subject.work.rate(m.median_us).value),
          row.floor ? percent_text(row.floor->roofline_fraction(m.median_us)) : "-",
          first_us > 0 ? format("%.2f×", m.median_us / first_us) : "-",
          row.cubin,
          row.config};
}

void print(const BenchResult& result, std::ostream& out) {
  const Subject& subject = result.subject;
  const char* const unit = subject.work.unit == Unit::tflop_s ? "TFLOP/s" : "TB/s";
  const BenchRow& first = result.rows.front();  // the winner, else the configuration that was named
  Table table({"", "time", "95% interval", "MHz", unit, "roofline", "vs " + first.what, "cubin", "config"},
              {1, 2, 3, 4, 5, 6});
  const double first_us = first.result.measurement.median_us;
  for (const BenchRow& row : result.rows) table.add(row_cells(result.subject, row, first_us));
  out << result.subject.kernel << " " << result.subject.problem << "\n"
      << served_line(first.table, first.cell) << table.text("  ")
      << (subject.floor ? "  roofline: " + std::string(subject.floor->bound) + "\n" : "")
      << programs_text(result.programs_compiled)
      << (result.winner_contended ? "the stored winner is contended: somebody else used the GPU during its search\n"
                                  : "")
      << (result.contended ? "contended: somebody else used the GPU during this bench, so its times are not reliable\n"
                           : "");
}

// The time that each ceiling allows at least, and its share of what the first row took.
std::string profile_text(const BenchResult& result, bool all) {
  const double time_us = result.rows.front().result.measurement.median_us;
  std::vector<Floor> floors = result.floors;
  std::ranges::stable_sort(floors, std::greater(), &Floor::us);
  if (floors.empty()) return "  no ceiling is known: moetune devices --calibrate\n";
  if (!all) floors.resize(1);
  Table table({"ceiling", "least time", "share", "work"}, {1, 2});
  for (const Floor& floor : floors) {
    const std::string work = floor.work.amount <= 0             ? ""
                             : floor.work.unit == Unit::tflop_s ? format("%.3g GFLOP", floor.work.amount * 1e-9)
                                                                : bytes_text(floor.work.amount);
    table.add({std::string(floor.bound), time_text(floor.us), percent_text(floor.us / time_us), work});
  }
  return table.text("  ");
}

int BenchCommand::write_script(Output& output, std::stop_token stop) {
  if (ncu_ && nsys_) throw BadInput("--ncu and --nsys write a script each; give one of them");
  if (request_.assume) throw BadInput("--assume is of no launch that a script makes; leave it out");
  const std::string& script = ncu_ ? *ncu_ : *nsys_;
  if (script.empty()) throw BadField(ncu_ ? "ncu" : "nsys", "takes no empty value; name a file");
  const ProfileTarget target = profile_target(request_, {.events = {.listener = note_listener(output)}, .stop = stop});
  const std::string command = write_profile_script(ncu_ ? Profiler::ncu : Profiler::nsys, target, request_, script);
  output.result() << script << " has this command, for the " << target.what << " " << target.config << ":\n"
                  << command << "\n";
  Document document = subject_document(target.subject);
  document["what"] = target.what;
  document["config"] = target.config;
  document["script"] = script;
  document["command"] = command;
  output.document(document);
  return kDone;
}

int BenchCommand::run(Output& output, std::stop_token stop) {
  request_.timing = read_timing(timing_, Timing::overlapped);
  if (ncu_ || nsys_) return write_script(output, stop);
  const BenchResult result = bench(request_, {.events = {.listener = note_listener(output)}, .stop = stop});
  if (result.interrupted) {
    output.note("Interrupted before anything was measured.");
  } else {
    print(result, output.result());
    if (!profile_.empty() && has_time(result.rows.front().result.outcome))
      output.result() << profile_text(result, profile_ == "roofline");
  }
  output.document(bench_document(result));
  const bool timed = !result.interrupted && has_time(result.rows.front().result.outcome);
  return timed ? kDone : kNothingFound;
}

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace moetune
