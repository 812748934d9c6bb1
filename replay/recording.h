// Recorded measurements of a whole space on a real GPU. Reads moetune's own recordings and Kernel Tuner's cache files
// (plain, .gz or .zst); writes its own.
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
  float time_us = 0;               // median
  std::vector<float> samples_us;   // may be empty
  std::string message;             // why it failed
};

struct Recording {
  HardwareKey hardware;        // origin "gpu": the machine it was measured on
  DeviceLimits limits;         // zeros where the source does not say (Kernel Tuner)
  std::string kernel;          // "decode_attention", "Xgemm"
  std::string problem;         // canonical text; "" where the source does not say
  std::string source_digest;   // of the template at that time; "" for Kernel Tuner
  std::string toolchain;
  std::string recorded_at;     // UTC date
  std::string digest;          // of the file's content: the provenance of results
  LegalSpace space;
  std::vector<RecordedTrial> trials;  // by ConfigId of `space`

  double optimum_us() const;  // the best ok time
};

// Throws BadInput naming the file and what is wrong in it.
Recording read_recording(const std::filesystem::path& path);
Recording parse_recording(std::string_view bytes, std::string_view file);

// Compressed with zstd; written to a temporary file and renamed, so that a reader never sees half of it.
void write_recording(const Recording& recording, const std::filesystem::path& path);

}  // namespace moetune
