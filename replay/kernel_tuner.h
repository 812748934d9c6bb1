// Reads the cache files of Kernel Tuner (https://github.com/KernelTuner/kernel_tuner): one JSON object with
// `tune_params_keys`, `tune_params` and `cache`, whose keys are the values of one configuration joined by
// commas, in the order of `tune_params_keys`, and whose `time` is in milliseconds or the name of an error. A
// file that Kernel Tuner still holds open lacks its closing braces, and one that was killed ends in the
// middle of a row: the whole rows before that count.
//
// Streamed: fields that are not needed are never stored. Stateless. Throws BadInput naming the file.
#pragma once

#include <string_view>

#include "replay/recording.h"

namespace moetune {

Recording parse_kernel_tuner(std::string_view json, std::string_view file);

}  // namespace moetune
