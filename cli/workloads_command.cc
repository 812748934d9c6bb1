#include "base/error.h"
#include "base/replace_file.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/text.h"
#include "jobs/stored/stored_results.h"
#include "workloads/from_misses.h"
#include "workloads/model_config.h"

namespace moetune {
namespace {

class WorkloadsCommand : public Command {
 public:
  std::string_view name() const override { return "workloads"; }
  std::string_view summary() const override {
    return "make a list of what to tune: from a model's config.json, or from a server's misses";
  }
  std::string_view details() const override {
    return "The list goes to --out, else to stdout; `moetune tune --workloads` and `moetune retune --workloads` take\n"
           "it. Layers that no kernel serves, and shapes that were left out, are named on stderr.\n";
  }
  std::vector<Action> actions() const override {
    return {{"from-config", "FILE|DIR", "a model's config.json or params.json: its attention and its experts"},
            {"from-misses", "FILE", "what moetune_write_misses wrote, weighted by picks"},
            {"show", "FILE", "checks a list, and shows the shapes that it stands for"}};
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  WorkloadList from_config(const Output& output) const;
  WorkloadList from_misses(const Output& output);
  int show(Output& output) const;
  int write(const WorkloadList& list, Output& output) const;

  std::string action_, file_, out_, over_;
  ServingOptions serving_;
  std::uint64_t page_ = 64;
  bool nothing_missed_ = false;  // from-misses: the file lists no miss
};

void WorkloadsCommand::declare(OptionTable& table) {
  table.positional("ACTION", action_, true, "from-config, from-misses or show");
  table.positional("FILE", file_, true, "what to read; from-config: or a model's folder");
  declare_serving(table, serving_, "from-config: ");
  table.whole("page", page_, 0, 128, "from-config: tokens a KV page; 0 for contiguous KV");
  table.text("over", "RANGES", over_,
             "from-misses: a family's misses as one range, batch=1..256,context=512..128k, instead of shapes");
  table.text("out", "FILE", out_, "the file to write; by default stdout");
  table.only_after({"from-config"}, {"tp", "ep", "batch", "context", "page"});
  table.only_after({"from-misses"}, {"over"});
}

WorkloadList WorkloadsCommand::from_config(const Output& output) const {
  ServingShape serving = serving_.shape();
  serving.page = static_cast<std::int64_t>(page_);
  const ModelConfig config = read_model_config(file_);
  ModelPlan plan = plan_model(config.facts, serving);
  for (const std::string& note : config.notes) output.warn(config.facts.name + ": " + note);
  for (const std::string& note : plan.notes) output.warn(note);
  WorkloadList list;
  for (ModelWorkload& one : plan.workloads) {
    list.entries.push_back(
        {.name = one.name, .kernel = one.kernel, .problem = one.problem, .ranges = one.ranges, .weight = one.weight});
  }
  return list;
}

WorkloadList WorkloadsCommand::from_misses(const Output& output) {
  const MissedList missed = workloads_from_misses(file_, over_);
  nothing_missed_ = missed.none;
  for (const std::string& note : missed.notes) output.warn(note);
  return missed.list;
}

int WorkloadsCommand::write(const WorkloadList& list, Output& output) const {
  const std::string text = workloads_text(list);
  const std::size_t shapes = points_of(list).size();  // throws before anything is written
  if (nothing_missed_) {
    output.warn(file_ + " lists no miss: there is nothing to tune.");
  } else if (list.entries.empty()) {
    output.warn("No kernel serves anything of " + file_ + ".");
  }
  if (out_.empty()) {
    output.data() << text;
  } else {
    replace_file(out_, text);
    output.result() << out_ << ": " << counted_text(static_cast<std::int64_t>(list.entries.size()), "workload") << ", "
                    << counted_text(static_cast<std::int64_t>(shapes), "shape") << "\n";
  }
  output.document(parse_stored(text));
  return list.entries.empty() && !nothing_missed_ ? kNothingFound : kDone;
}

int WorkloadsCommand::show(Output& output) const {
  const std::vector<TuningPoint> points = points_of(read_workloads(file_));
  Table table({"weight", "kernel", "problem"}, {0});
  Document shapes = Document::array();
  for (const TuningPoint& point : points) {
    table.add({format("%.3g", point.weight), point.kernel, shown_problem(point.kernel, point.problem, output)});
    shapes.push_back({{"kernel", point.kernel}, {"problem", point.problem}, {"weight", point.weight}});
  }
  output.result() << table.text("", output.columns());
  output.document({{"workloads", file_}, {"shapes", std::move(shapes)}});
  return kDone;
}

int WorkloadsCommand::run(Output& output, std::stop_token) {
  if (action_ == "show" && !out_.empty()) throw BadInput("--out: show writes no file");
  if (action_ == "from-config") return write(from_config(output), output);
  if (action_ == "from-misses") return write(from_misses(output), output);
  if (action_ == "show") return show(output);
  throw BadInput(unknown_name("action", action_, {"from-config", "from-misses", "show"}));
}

}  // namespace

std::unique_ptr<Command> make_workloads_command() { return std::make_unique<WorkloadsCommand>(); }

}  // namespace moetune
