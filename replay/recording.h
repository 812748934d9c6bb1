// Recorded measurements of a whole space on a real GPU. Reads moetune's own recordings (docs/recordings.md
// has the format) and Kernel Tuner's cache files, plain or compressed with gzip or zstd; writes its own.
//
// A recording's rows are its legal space: a configuration it lacks does not exist there. Immutable once
// read; safe to share between threads.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cache/key.h"
#include "kernels/limits.h"
#include "search/legal_space.h"
#include "search/outcome.h"

namespace moetune {

struct RecordedTrial {
  Outcome outcome = Outcome::ok;
  float time_us = 0;              // median
  std::vector<float> samples_us;  // may be empty
  std::string message;            // why it failed
};

struct Recording {
  HardwareKey hardware;       // origin "gpu": the machine it was measured on
  DeviceLimits limits;        // zeros where the source does not say (Kernel Tuner)
  std::string kernel;         // "decode_attention", "Xgemm"
  std::string problem;        // canonical text; "" where the source does not say
  std::string source_digest;  // of the template at that time; "" for Kernel Tuner
  std::string toolchain;
  std::string recorded_at;  // UTC date
  double read_tb_s = 0;     // the GPU's measured read ceiling, terabytes a second; 0 where unknown
  double launch_us = 0;     // and its least launch, microseconds
  std::string digest;       // of the file's uncompressed content: the provenance of results; set by reading
  LegalSpace space;
  std::vector<RecordedTrial> trials;  // by ConfigId of `space`

  double optimum_us() const;  // the best ok time; infinite where nothing worked
};

// What a recording is of, without its rows.
struct RecordingHeader {
  std::string hardware;  // the GPU's name
  std::string kernel;
  std::string problem;
  std::string recorded_at;
};

// Throws BadInput naming the file and what is wrong in it. Names and problems are one line of text each; those of
// kernels, parameters and values hold no control characters.
Recording read_recording(const std::filesystem::path& path);
Recording parse_recording(std::string_view bytes, std::string_view file);

// Cheap: reads no further than it must. moetune's own recordings only.
RecordingHeader parse_recording_header(std::string_view bytes, std::string_view file);

// Compressed with zstd; written to a temporary file and renamed, so that a reader never sees half of it.
// Throws BrokenEnvironment where that fails.
void write_recording(const Recording& recording, const std::filesystem::path& path);

}  // namespace moetune
