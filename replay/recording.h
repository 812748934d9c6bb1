// Recorded measurements of a whole space on a real GPU. Reads moetune's own recordings (docs/recordings.md
// has the format) and the results of other tuners (result_files.h), plain or compressed with gzip or zstd; writes its
// own.
//
// A recording's rows are its legal space: a configuration it lacks does not exist there. Immutable once
// read; safe to share between threads.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/limits.h"
#include "keys/key.h"
#include "search/legal_space.h"
#include "search/objective.h"
#include "search/outcome.h"

namespace moetune {

struct RecordedTrial {
  Outcome outcome = Outcome::ok;
  float time_us = 0;              // median
  std::vector<float> samples_us;  // may be empty
  std::string message;            // why it failed
  double figure = 0;              // if the objective is no time; time_us is then what a search minimizes for it
};

struct Recording {
  HardwareKey hardware;       // origin "gpu": the machine it was measured on
  DeviceLimits limits;        // zeros in another tuner's results, which hold rows alone
  std::string kernel;         // "decode_attention", "Xgemm"
  std::string problem;        // canonical text; "" where the source does not say
  std::string source_digest;  // of the template at that time; "" in another tuner's results
  std::string toolchain;
  std::string recorded_at;  // UTC date
  double read_tb_s = 0;     // the GPU's measured read ceiling, terabytes a second; 0 where unknown
  double launch_us = 0;     // and its least launch, microseconds
  std::string digest;       // of the file's uncompressed content: the provenance of results; set by reading
  std::optional<Objective> objective = {};  // of another tuner's results; moetune's own recordings hold times
  LegalSpace space;
  std::vector<RecordedTrial> trials;  // by ConfigId of `space`

  bool is_moetunes() const { return !objective; }
  double optimum_us() const;  // the best ok time; infinite where nothing worked
};

// The subject of a recording, without its rows.
struct RecordingHeader {
  std::string hardware;  // the GPU's name
  std::string kernel;
  std::string problem;
  std::string recorded_at;
};

// Throws BadInput naming the file and what is wrong in it. Names and problems are one line of text each; those of
// kernels, parameters and values hold no control characters. `objective` is "NAME", "NAME:min" or "NAME:max", or "" for
// the file's own (objective_choice.h); BadField if the file has no such figure.
Recording read_recording(const std::filesystem::path& path, const std::string& objective = "time");
Recording parse_recording(std::string_view bytes, std::string_view file, const std::string& objective = "time");

// Cheap: reads no further than it must. moetune's own recordings only.
RecordingHeader parse_recording_header(std::string_view bytes, std::string_view file);

// Compressed with zstd; written to a temporary file and renamed, so that a reader never sees half of it.
// Throws BrokenEnvironment where that fails.
void write_recording(const Recording& recording, const std::filesystem::path& path);

}  // namespace moetune
