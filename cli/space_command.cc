#include <algorithm>
#include <limits>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/text.h"
#include "jobs/session/device_choice.h"
#include "jobs/session/documents.h"
#include "jobs/session/gpu_choice.h"
#include "jobs/session/kernel_files.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "replay/objective_choice.h"
#include "tuner/worker/cuda_device.h"

namespace moetune {
namespace {

class SpaceCommand : public Command {
 public:
  std::string_view name() const override { return "space"; }
  std::string_view summary() const override { return "count a kernel's configurations for a workload and device"; }
  std::string_view details() const override {
    return "Without --arch the limits are those of --device; if --device auto finds no GPU, of sm_90a.\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token) override;

 private:
  JobTarget target_;
  std::string architecture_;
  std::uint64_t list_ = 0;
};

void SpaceCommand::declare(OptionTable& table) {
  declare_workload(table, target_.workload, false);
  table.text("arch", "SM", architecture_, "the limits of an architecture: sm_80, sm_89, sm_90a, …");
  declare_device(table, target_.device);
  table.whole("list", list_, 0, std::numeric_limits<std::uint64_t>::max(), "print this many configurations");
}

// The legal space and what it is of.
struct Counted {
  std::string kernel, problem, where;
  LegalSpace space;
  std::optional<Config> space_default;
  std::string why_empty;      // where no configuration is legal
  std::uint64_t can_run = 0;  // by the rules that must hold; of a recording, what it holds
};

Counted count(const Kernel& kernel, const Problem& problem, const DeviceLimits& limits, const std::string& where) {
  const Space space = load_space(kernel.name());
  const Assignment environment = expression_environment(problem, limits);
  LegalSpace legal = space.enumerate(environment);
  const std::string why_empty = legal.empty() ? space.why_empty(environment) : "";
  const std::uint64_t can_run = space.count(environment, Rules::must);
  return {kernel.name(), problem.text(), where, std::move(legal), space.default_config(environment),
          why_empty,     can_run};
}

Counted count_on_device(const JobTarget& target) {
  const DeviceChoice choice =
      choose_device(target.device, target.workload, {.replay = {.may_stand_in = true, .objective = kAnyObjective}});
  const DeviceInfo& info = choice.device->info();
  if (choice.recording != nullptr) {
    return {choice.what.problem.kernel,
            choice.what.problem.text(),
            info.key.name + ", recorded",
            choice.recording->space,
            std::nullopt,
            "",
            choice.recording->space.size()};
  }
  return count(*choice.what.kernel, choice.what.problem, info.limits, info.key.name);
}

Counted count_for(const std::string& architecture, const JobTarget& target, const Output& output) {
  require_kernel(target);
  if (architecture.empty() && target.device != "auto") return count_on_device(target);
  if (!target.workload.kernel) throw BadInput("which KERNEL? `moetune kernels` lists them");
  const Kernel& kernel = find_kernel(*target.workload.kernel);
  const Problem problem = problem_of(kernel, target.workload);
  if (!architecture.empty()) {
    return count(kernel, problem, limits_of_architecture(architecture), architecture);
  }
  const CudaDeviceList gpus = list_cuda_devices();
  if (!gpus.devices.empty()) {
    const DeviceInfo& gpu = gpus.devices[idlest_gpu(gpus.devices)];
    return count(kernel, problem, gpu.limits, gpu.key.name);
  }
  output.warn("No GPU here: counting under the limits of sm_90a (--arch takes another).");
  return count(kernel, problem, limits_of_architecture("sm_90a"), "sm_90a");
}

// How many legal configurations use each value, by parameter and domain position.
std::vector<std::vector<std::size_t>> uses(const LegalSpace& space) {
  std::vector<std::vector<std::size_t>> counts;
  for (const Parameter& parameter : space.parameters()) counts.emplace_back(parameter.values.size());
  for (std::size_t id = 0; id < space.size(); ++id) {
    const std::span<const Position> point = space.point(static_cast<ConfigId>(id));
    for (std::size_t i = 0; i < point.size(); ++i) ++counts[i][point[i]];
  }
  return counts;
}

std::string uses_text(const Parameter& parameter, const std::vector<std::size_t>& counts) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    text += (text.empty() ? "" : ", ") + parameter.values[i].text() + format(" (%zu)", counts[i]);
  }
  return text;
}

Document space_document(const Counted& counted, std::size_t list) {
  const LegalSpace& space = counted.space;
  Document document = {{"kernel", counted.kernel},
                       {"problem", counted.problem},
                       {"limits_of", counted.where},
                       {"cartesian", space.cartesian_size()},
                       {"can_run", counted.can_run},
                       {"legal", space.size()},
                       {"default", counted.space_default ? Document(counted.space_default->text()) : Document(nullptr)},
                       {"parameters", Document::array()}};
  if (space.empty()) document["why_empty"] = counted.why_empty;
  const auto counts = uses(space);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    Document values = Document::array();
    for (std::size_t j = 0; j < counts[i].size(); ++j) {
      const Value& value = parameter.values[j];
      values.push_back(
          {{"value", value.is_named() ? Document(value.name) : Document(value.number)}, {"legal", counts[i][j]}});
    }
    document["parameters"].push_back({{"name", parameter.name}, {"doc", parameter.doc}, {"values", values}});
  }
  if (list > 0) document["configs"] = Document::array();
  for (std::size_t id = 0; id < list; ++id) {
    document["configs"].push_back(space.config(static_cast<ConfigId>(id)).text());
  }
  return document;
}

void print(const Counted& counted, std::size_t list, const Output& output) {
  std::ostream& out = output.result();
  const LegalSpace& space = counted.space;
  Table head({});
  if (!counted.problem.empty()) head.add({"problem", counted.problem});
  head.add({"limits of", counted.where});
  const auto can_run = static_cast<double>(counted.can_run), legal = static_cast<double>(space.size());
  head.add({"cartesian", count_text(space.cartesian_size())});
  head.add(
      {"can run", count_text(can_run) + " (must rules remove " + count_text(space.cartesian_size() - can_run) + ")"});
  head.add({"legal", count_text(legal) + " (useful rules remove " + count_text(can_run - legal) + ")"});
  head.add({"default", counted.space_default ? counted.space_default->text() : "(none that is legal here)"});
  if (!counted.why_empty.empty()) head.add({"why none", counted.why_empty});
  out << counted.kernel << "\n" << head.text("  ", output.columns()) << "\n";

  Table table({"parameter", "values (legal configurations with each)", ""});
  const auto counts = uses(space);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const Parameter& parameter = space.parameters()[i];
    table.add({parameter.name, uses_text(parameter, counts[i]), parameter.doc});
  }
  out << table.text("  ", output.columns());
  if (list > 0) out << "\n";
  for (std::size_t id = 0; id < list; ++id) out << space.config(static_cast<ConfigId>(id)).text() << "\n";
}

int SpaceCommand::run(Output& output, std::stop_token) {
  const Counted counted = count_for(architecture_, target_, output);
  const std::size_t list = std::min<std::size_t>(list_, counted.space.size());
  print(counted, list, output);
  output.document(space_document(counted, list));
  return kDone;
}

}  // namespace

std::unique_ptr<Command> make_space_command() { return std::make_unique<SpaceCommand>(); }

}  // namespace moetune
