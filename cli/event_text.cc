#include "cli/event_text.h"

#include "cli/text.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

std::string device_note(const DeviceChosen& chosen) {
  const std::string brief = brief_problem(chosen.kernel, chosen.problem);
  const std::string workload = chosen.kernel + (brief.empty()        ? ""
                                                : brief == "default" ? " (default problem)"
                                                                     : " " + brief);
  const DeviceInfo& device = chosen.device;
  if (!device.recorded) {
    return workload + " on " + device.key.name + " (" + device.id + ", " + device.architecture + ").";
  }
  return (chosen.why_no_gpu.empty() ? "" : "No GPU here: " + chosen.why_no_gpu + ".\n") + "Replaying measurements of " +
         workload + ", recorded on " + device.key.name +
         (chosen.recorded_at.empty() ? "" : " on " + chosen.recorded_at) + ".";
}

std::string space_note(const SearchStarted& search) {
  return count_text(static_cast<double>(search.legal)) + " legal configurations, budget " +
         count_text(static_cast<double>(search.budget)) + " trials.";
}

std::string ceiling_note(const CeilingMeasured& measured) {
  return measured.device.key.name + ", " + measured.figure.title + ": " + ceiling_text(measured.figure, measured.value);
}

std::string disturbance_note(const GpuDisturbed& disturbed) {
  const CanaryReading& canary = disturbed.reading;
  std::string text = "Somebody else is using the GPU: ";
  text += canary.lost_us > 0
              ? format("a test kernel stood still for %.1f of %.1f ms", canary.lost_us * 1e-3, canary.elapsed_us * 1e-3)
              : format("a test kernel was slowed for %.0f%% of its time", canary.slow_share * 100);
  if (canary.other_processes.value_or(0) > 0) text += format(", and nvidia-smi lists %d more", *canary.other_processes);
  return text + ".";
}

std::string quiet_note(const GpuQuiet& quiet) {
  return format("The GPU is quiet again after %.1f s; what was disturbed has been measured again.", quiet.waited_s);
}

std::string contended_note(const GpuContended& contended) {
  return format(
      "The GPU did not get quiet in %.0f s. Times measured beside that load are marked contended: they are not used, "
      "and the next search measures again.",
      contended.waited_s);
}

}  // namespace

std::string_view phase_words(Phase phase) {
  switch (phase) {
    case Phase::duel:
      return "duel of the finalists";
    case Phase::verifying:
      return "verifying the winner";
    case Phase::storing:
      return "storing the result";
    case Phase::calibrating:
      return "measuring the ceilings";
    default:
      return phase_name(phase);
  }
}

std::string note_of(const Event& event) {
  return std::visit(
      Overloaded{[](const DeviceChosen& chosen) { return device_note(chosen); },
                 [](const SearchStarted& search) { return space_note(search); },
                 [](const CeilingMeasured& measured) { return ceiling_note(measured); },
                 [](const GpuDisturbed& disturbed) { return disturbance_note(disturbed); },
                 [](const GpuQuiet& quiet) { return quiet_note(quiet); },
                 [](const GpuContended& contended) { return contended_note(contended); },
                 [](const Warning& warning) { return warning.text; }, [](const auto&) { return std::string(); }},
      event.what);
}

void say(const Event& event, const Output& output) {
  const std::string note = note_of(event);
  const auto* const chosen = std::get_if<DeviceChosen>(&event.what);
  const bool is_warning = std::holds_alternative<Warning>(event.what) ||
                          std::holds_alternative<GpuContended>(event.what) ||
                          (chosen != nullptr && !chosen->why_no_gpu.empty());  // a recording that nobody asked for
  if (!note.empty()) is_warning ? output.warn(note) : output.note(note);
}

EventListener note_listener(const Output& output) {
  return [&output](const Event& event) { say(event, output); };
}

}  // namespace moetune
