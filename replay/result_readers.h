// One reader a format of results, for result_files.cc. Each reads the file twice: what it holds, then its rows.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "replay/json_rows.h"
#include "replay/objective_choice.h"
#include "replay/recording.h"

namespace moetune {

inline constexpr std::size_t kMostRows = std::size_t{1} << 20;  // the largest published space has a third of that

// The contents of a results file. The rows are not sorted, and their figures not yet costs.
struct ResultFile {
  std::string device, kernel, problem, recorded_at;
  Objective objective;
  std::vector<Parameter> parameters;
  std::vector<FigureRow> rows;
};

// `text` is prepared by json_of_python().
ResultFile read_kernel_tuner(std::string_view text, std::string_view file, const std::string& objective);
ResultFile read_t4(std::string_view text, std::string_view file, const std::string& objective);
ResultFile read_ktt(std::string_view text, std::string_view file, const std::string& objective);

// A tuner's name of an outcome.
struct OutcomeName {
  std::string_view name;
  Outcome outcome;
};
std::optional<Outcome> outcome_named(std::string_view name, std::span<const OutcomeName> names);

// "2024-05-06" of "2024-05-06 07:08:09"; "" if it is no date.
std::string date_of(std::string_view timestamp);
std::string problem_of_sizes(const std::vector<std::string>& sizes);

}  // namespace moetune
