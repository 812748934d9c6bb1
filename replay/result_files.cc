#include "replay/result_files.h"

#include <algorithm>

#include "base/digest.h"
#include "base/error.h"
#include "replay/result_readers.h"

namespace moetune {
namespace {

bool is_xml(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '<';
}

ResultFile read(std::string_view text, std::string_view file, const std::string& objective) {
  const std::string section = read_json_rows(text, file, {});
  if (section == "cache") return read_kernel_tuner(text, file, objective);
  if (section == "results") return read_t4(text, file, objective);
  if (section == "Results") return read_ktt(text, file, objective);
  throw BadInput(std::string(file) +
                 ": neither a moetune recording, nor a cache of Kernel Tuner, nor results in T4's or KTT's JSON");
}

}  // namespace

std::optional<Outcome> outcome_named(std::string_view name, std::span<const OutcomeName> names) {
  const auto found = std::ranges::find(names, name, &OutcomeName::name);
  return found == names.end() ? std::nullopt : std::optional(found->outcome);
}

std::string date_of(std::string_view timestamp) {
  const std::string_view date = timestamp.substr(0, 10);
  constexpr std::string_view kForm = "0000-00-00";
  const auto fits = [](char c, char form) { return form == '-' ? c == '-' : c >= '0' && c <= '9'; };
  return std::equal(date.begin(), date.end(), kForm.begin(), kForm.end(), fits) ? std::string(date) : "";
}

Recording parse_result_file(std::string text, std::string_view file, const std::string& objective) {
  std::string provenance = digest(text);
  if (is_xml(text)) {
    throw BadInput(std::string(file) +
                   ": it is XML; of KTT's results the JSON is read, which its OutputFormat::JSON writes");
  }
  if (text.starts_with("PK\x03\x04"))
    throw BadInput(std::string(file) + ": it is a ZIP archive; unpack it, and name the file within");
  const std::string prepared = json_of_python(std::move(text));
  ResultFile found = read(prepared, file, objective);
  // The same file searched for another figure is another source of results.
  if (found.objective.name != "time") provenance = digest(provenance + " " + found.objective.name);
  if (found.rows.empty()) throw BadInput(std::string(file) + ": it holds no whole row");
  SortedRows sorted = rows_by_objective(std::move(found.parameters), std::move(found.rows), found.objective);
  HardwareKey hardware;
  hardware.name = found.device;
  return {.hardware = hardware,
          .limits = {},
          .kernel = found.kernel,
          .problem = found.problem,
          .source_digest = "",
          .toolchain = "",
          .recorded_at = found.recorded_at,
          .digest = std::move(provenance),
          .objective = std::move(found.objective),
          .space = std::move(sorted.space),
          .trials = std::move(sorted.trials)};
}

}  // namespace moetune
