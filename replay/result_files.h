// Reads the results of other tuners as recordings, each a JSON file:
// - Kernel Tuner's cache files: `tune_params_keys`, `tune_params` and `cache`, whose keys are the values of one
//   configuration joined by commas, and whose `time` is in milliseconds. One that Kernel Tuner still holds open lacks
//   its closing braces, and one that was killed ends within a row: the whole rows before that count.
// - T4, the auto-tuning community's results format, which Kernel Tuner, KTT and moetune write: `results` with a
//   `configuration`, `measurements` and an `invalidity` each.
// - KTT's results: `Results` with a `Configuration`, a `Status` and a `TotalDuration` each.
// docs/recordings.md says what becomes of their fields.
//
// Stateless; keeps no more of a file than its header and one row at a time. Throws BadInput naming the file, and
// BadField for `objective` (objective_choice.h).
#pragma once

#include <string>
#include <string_view>

#include "replay/recording.h"

namespace moetune {

Recording parse_result_file(std::string text, std::string_view file, const std::string& objective);

}  // namespace moetune
