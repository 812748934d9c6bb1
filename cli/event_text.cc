#include "cli/event_text.h"

#include "cli/text.h"

namespace moetune {
namespace {

std::string device_note(const DeviceChosen& chosen) {
  const std::string workload = chosen.kernel + (chosen.problem.empty() ? "" : " " + chosen.problem);
  const DeviceInfo& device = chosen.device;
  if (!device.recorded) {
    return workload + " on " + device.key.name + " (" + device.id + ", " + device.architecture + ").";
  }
  return (chosen.why_no_gpu.empty() ? "" : "No GPU here: " + chosen.why_no_gpu + ".\n") +
         "Replaying measurements of " + workload + ", recorded on " + device.key.name +
         (chosen.recorded_at.empty() ? "" : " on " + chosen.recorded_at) + ".";
}

std::string space_note(const SearchStarted& search) {
  return count_text(static_cast<double>(search.legal)) + " legal configurations, budget " +
         count_text(static_cast<double>(search.budget)) + " trials.";
}

std::string ceiling_note(const CeilingMeasured& measured) {
  return measured.name + " of " + measured.device.key.name + ": " +
         (measured.unit == "us" ? time_text(measured.value) : rate_text(measured.value));
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
  return std::visit(Overloaded{[](const DeviceChosen& chosen) { return device_note(chosen); },
                               [](const SearchStarted& search) { return space_note(search); },
                               [](const CeilingMeasured& measured) { return ceiling_note(measured); },
                               [](const Warning& warning) { return warning.text; },
                               [](const auto&) { return std::string(); }},
                    event.what);
}

EventListener note_listener(const Output& output) {
  return [&output](const Event& event) {
    const std::string note = note_of(event);
    if (!note.empty()) output.note(note);
  };
}

}  // namespace moetune
