#include "report/ncu_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20, kMostColumns = 20'000, kMostLaunches = 1'000;
constexpr std::size_t kLongestName = 500;

using Row = std::vector<std::string>;

// One row from `text` on, which is left behind it; quotes may hold commas, quotes and ends of lines. nullopt at the
// end. Throws for a quote that is never closed.
std::optional<Row> next_row(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  Row row(1);
  bool quoted = false;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"' && quoted && at + 1 < text.size() && text[at + 1] == '"') {
      row.back() += text[++at];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      if (row.size() == kMostColumns)
        throw BadInput("a row has more than " + std::to_string(kMostColumns) + " columns");
      row.emplace_back();
    } else if (!quoted && c == '\n') {
      break;
    } else if (c != '\r' || quoted) {
      row.back() += c;
    }
  }
  if (quoted) throw BadInput("a quote is never closed");
  text.remove_prefix(std::min(text.size(), at + 1));
  return row;
}

// "1,234.5" as ncu groups digits; nullopt for what is no number from 0 on.
std::optional<double> number_in(std::string text) {
  std::erase(text, ',');
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(number) && number >= 0 ? std::optional(number) : std::nullopt;
}

// Microseconds in one of a unit; 0 if it is none of time.
double us_in(const std::string& unit) {
  static const std::map<std::string, double> units = {{"ns", 1e-3}, {"nsecond", 1e-3}, {"us", 1},  {"usecond", 1},
                                                      {"ms", 1e3},  {"msecond", 1e3},  {"s", 1e6}, {"second", 1e6}};
  const auto found = units.find(unit);
  return found != units.end() ? found->second : 0;
}

struct Metric {
  const char* name;
  std::optional<double> NcuLaunch::*value;
};
constexpr Metric kMetrics[] = {{"gpu__time_duration.sum", &NcuLaunch::time_us},
                               {"sm__warps_active.avg.pct_of_peak_sustained_active", &NcuLaunch::occupancy},
                               {"sm__maximum_warps_per_active_cycle_pct", &NcuLaunch::most_occupancy},
                               {"sm__throughput.avg.pct_of_peak_sustained_elapsed", &NcuLaunch::sm},
                               {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", &NcuLaunch::memory},
                               {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", &NcuLaunch::dram},
                               {"lts__throughput.avg.pct_of_peak_sustained_elapsed", &NcuLaunch::l2},
                               {"l1tex__throughput.avg.pct_of_peak_sustained_active", &NcuLaunch::l1}};
constexpr std::string_view kStallBegin = "smsp__average_warps_issue_stalled_", kStallEnd = "_per_issue_active.ratio";

// "long_scoreboard"; "" for a column that is no stall, or is one of "not_issued" again.
std::string stall_of(std::string_view column) {
  if (!column.starts_with(kStallBegin) || !column.ends_with(kStallEnd)) return "";
  if (column.size() <= kStallBegin.size() + kStallEnd.size()) return "";
  column.remove_prefix(kStallBegin.size());
  column.remove_suffix(kStallEnd.size());
  return column.ends_with("_not_issued") ? "" : std::string(column.substr(0, kLongestName));
}

NcuLaunch launch_of(const Row& header, const Row& units, const Row& row) {
  NcuLaunch launch;
  for (std::size_t i = 0; i < std::min(header.size(), row.size()); ++i) {
    if (header[i] == "Kernel Name") launch.kernel = row[i].substr(0, kLongestName);
    const std::optional<double> number = number_in(row[i]);
    if (!number) continue;
    for (const Metric& metric : kMetrics) {
      if (header[i] != metric.name) continue;
      const bool is_time = metric.value == &NcuLaunch::time_us;
      const double scale = is_time ? us_in(i < units.size() ? units[i] : "") : 1;
      if (scale > 0) launch.*metric.value = *number * scale;
    }
    if (const std::string stall = stall_of(header[i]); !stall.empty() && *number > 0)
      launch.stalls.emplace_back(stall, *number);
  }
  std::ranges::stable_sort(launch.stalls, std::greater(), &std::pair<std::string, double>::second);
  return launch;
}

std::vector<NcuLaunch> launches_in(std::string_view text) {
  // In front of the table stand lines of ncu and of the program.
  while (!text.empty() && !text.starts_with("\"ID\",")) {
    const std::size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  const std::optional<Row> header = next_row(text);
  if (!header || std::ranges::find(*header, "Kernel Name") == header->end())
    throw BadInput("it holds no table of `ncu --csv --page raw` (a line that begins with \"ID\",)");
  const Row units = next_row(text).value_or(Row());
  std::vector<NcuLaunch> launches;
  while (const std::optional<Row> row = next_row(text)) {
    if (row->size() != header->size()) break;  // what ncu says behind it
    if (launches.size() == kMostLaunches)
      throw BadInput("it holds more than " + std::to_string(kMostLaunches) + " launches; have ncu look at fewer");
    launches.push_back(launch_of(*header, units, *row));
  }
  if (launches.empty()) throw BadInput("its table holds no launch; see what ncu said at the end of the file");
  return launches;
}

}  // namespace

std::vector<NcuLaunch> read_ncu_csv(const std::filesystem::path& file) {
  const std::string text = read_regular_file(file, kMostBytes);
  try {
    return launches_in(text);
  } catch (const BadInput& error) {
    throw BadInput(file.string() + ": " + error.what());
  }
}

}  // namespace moetune
