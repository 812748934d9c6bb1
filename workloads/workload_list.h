// A list of workloads: kernels with a specialization or a preset, over ranges or lists of shapes, each with a weight.
// The format of workloads.json (docs/workloads.md; workloads/workloads.schema.json).
//
// Plain data and pure functions. Errors: BadInput, which names file, line and key for what stands in a file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/model_workloads.h"
#include "kernels/problem.h"

namespace moetune {

inline constexpr std::size_t kMostEntries = 10'000;  // of a list
inline constexpr std::size_t kMostShapes = 100'000;  // of a list, over all of its entries

struct WorkloadShape {
  std::string problem;  // dimensions over those of the entry: "batch=8,context=4096"
  double weight = 1;    // of the entry's

  bool operator==(const WorkloadShape&) const = default;
};

struct WorkloadEntry {
  std::string name;  // for messages; may be empty
  std::string kernel;
  std::string preset;                  // may be empty
  std::string problem;                 // dimensions over the preset; may be empty
  std::vector<DimensionRange> ranges;  // ranges or shapes; with neither it is one problem
  std::vector<WorkloadShape> shapes;
  double weight = 1;

  bool operator==(const WorkloadEntry&) const = default;
};

struct WorkloadList {
  std::vector<WorkloadEntry> entries;
};

// One problem to tune. Points of several entries that are one problem are one point, with the sum of the weights.
struct TuningPoint {
  std::string kernel;
  std::string problem;  // canonical
  double weight = 0;

  bool operator==(const TuningPoint&) const = default;
};

// A range of a family to tune as one table (jobs/range/job.h).
struct TuningRange {
  std::string kernel;
  std::string problem;  // canonical; one of the family, and what `over` does not name
  std::string over;     // "batch=1..256,context=512..131072"
  double weight = 0;

  bool operator==(const TuningRange&) const = default;
};

// A list as it is tuned: entries with ranges of free dimensions as ranges, those of one family together over the ranges
// of all; other entries as points. Heaviest first, each.
struct TuningWork {
  std::vector<TuningRange> ranges;
  std::vector<TuningPoint> points;
};

WorkloadList read_workloads(const std::filesystem::path& file);
WorkloadList parse_workloads(std::string text, const std::string& file);
std::string workloads_text(const WorkloadList& list);  // as read_workloads reads it

// The single shapes that stand for an entry: those of its list, or a grid over its ranges in steps of about four, both
// ends included. Combinations that no problem has are left out.
std::vector<TuningPoint> points_of(const WorkloadEntry& entry);

// How many shapes those are before what no problem has is left out; 100,001 for any more.
std::size_t shape_count(const WorkloadEntry& entry);

// The points of all entries, heaviest first; of equal weight in the list's order.
std::vector<TuningPoint> points_of(const WorkloadList& list);

TuningWork work_of(const WorkloadList& list);

}  // namespace moetune
