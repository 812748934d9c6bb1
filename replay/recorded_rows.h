// Rows in the order of a file, on their way to becoming a recording's LegalSpace and its trials.
#pragma once

#include <vector>

#include "replay/recording.h"

namespace moetune {

struct RecordedRow {
  std::vector<Position> point;
  RecordedTrial trial;
};

// Sorts `rows` by point; of rows for one point the last in the file counts. Throws BadInput where a point
// lies outside its domain.
struct SortedRows {
  LegalSpace space;
  std::vector<RecordedTrial> trials;
};
SortedRows sort_rows(std::vector<Parameter> parameters, std::vector<RecordedRow> rows);

}  // namespace moetune
