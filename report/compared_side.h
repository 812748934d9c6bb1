// One side of `moetune compare A B`, as it is written: a cache or pack file, a date, a GPU, or the key of a search.
//
// Parsing looks at no file; reading is for the thread that owns the cache.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/comparison.h"

namespace moetune {

struct ComparedSide {
  enum class Kind { file, date, gpu, search };

  Kind kind = Kind::file;
  std::string text;         // the file, or the GPU's name or a part of it
  UtcSeconds until{};       // of a date: what was the winner at its end
  std::int64_t search = 0;  // a workload's key
};

// `2026-11-22`, `2026-11-22T18:00:00Z`, `key:12`, `gpu:H100`, `file:old.db`, or else a file. Throws BadInput for a date
// or a key that is none.
ComparedSide parse_side(const std::string& written);

// The winners of the side; of a file that is given as `cache`, all. Throws BadInput for a GPU or a search that the
// cache does not have.
std::vector<Entry> read_side(const ComparedSide& side, const Cache& cache);

}  // namespace moetune
