#include "cli/text.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "base/utf8.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

// Columns of a table are kept this wide while others can give way, and never get narrower than that.
constexpr std::size_t kNarrow = 12, kNarrowest = 6;

bool may_break_after(char c) { return c == ',' || c == ' '; }

// Within a word: where a break reads better than anywhere else.
bool may_part_after(char c) { return c == '_' || c == '=' || c == '-' || c == '/' || c == ':'; }

// The width of the longest piece of `text`; a piece ends with a character for which `ends` holds.
std::size_t longest_part(const std::string& text, bool (*ends)(char)) {
  std::size_t longest = 0, width = 0;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80) ++width;
    longest = std::max(longest, width);
    if (ends(c)) width = 0;
  }
  return longest;
}

// The columns that an indent leaves of a screen; 0, for no limit, stays 0.
std::size_t room(const std::string& indent, std::size_t columns) {
  return columns == 0 ? 0 : std::max(columns, indent.size() + 1) - indent.size();
}

}  // namespace

std::string time_text(double microseconds) {
  if (!(microseconds > 0)) return "-";
  if (microseconds < 1e3) return format(microseconds < 100 ? "%.2f µs" : "%.1f µs", microseconds);
  if (microseconds < 1e6) return format("%.2f ms", microseconds * 1e-3);
  return format("%.2f s", microseconds * 1e-6);
}

std::string bytes_text(double bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return format(bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

std::string count_text(double count) {
  if (count >= 1e15) return format("%.3g", count);
  std::string digits = format("%.0f", count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string counted_text(std::int64_t count, const std::string& noun) {
  return count_text(static_cast<double>(count)) + " " + noun + (count == 1 ? "" : "s");
}

std::string rate_text(const Rate& rate) {
  if (!(rate.value > 0)) return "-";
  const bool small = rate.value < 0.1;
  const double value = small ? rate.value * 1e3 : rate.value;
  if (rate.unit == Unit::tflop_s) return format(small ? "%.1f GFLOP/s" : "%.1f TFLOP/s", value);
  return format(small ? "%.1f GB/s" : "%.2f TB/s", value);
}

std::string ceiling_text(const CeilingFigure& figure, double value) {
  return figure.unit == Unit::us ? time_text(value) : rate_text({value, figure.unit});
}

std::string percent_text(double fraction) { return fraction > 0 ? format("%.1f%%", fraction * 100) : "-"; }

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(std::llround(std::max(seconds, 0.0)));
  if (whole >= 3600) return format("%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return format("%lld:%02lld", whole / 60, whole % 60);
}

std::string shown_problem(const std::string& kernel, const std::string& problem, const Output& output) {
  if (problem.empty()) return "-";
  return output.is_wide() ? problem : brief_problem(kernel, problem);
}

std::string shown_family(const std::string& name, const std::string& family, const Output& output) {
  const Kernel* const kernel = known_kernel(name);
  if (output.is_wide() || kernel == nullptr) return family;
  std::string brief;
  std::istringstream parts(family);
  for (std::string part; std::getline(parts, part, ',');) {
    const bool is_default = std::ranges::any_of(kernel->schema(), [&](const Dimension& dimension) {
      return part == dimension.name + "=" + dimension.default_value.text();
    });
    if (!is_default) brief += (brief.empty() ? "" : ",") + part;
  }
  return brief.empty() ? "default" : brief;
}

std::string served_line(const std::string& table, const std::string& cell) {
  if (table.empty()) return "";
  return "  a server launches it here: " + table + ", " +
         (cell.empty() ? "which expects it between its cells" : "its cell " + cell) + "\n";
}

std::string programs_text(std::size_t compiled) {
  return compiled == 0 ? "the references and the harness came from the cache\n"
                       : format("%zu of the references and the harness were compiled for this\n", compiled);
}

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> pieces(1);
  // State of the last piece: its columns, its bytes up to the last break, and up to the last break within a word.
  std::size_t used = 0, breakable = 0, partable = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
    if (used == width && width > 0 && text[at] == ' ') {  // where the line ends by itself
      at = text.find_first_not_of(' ', at);
      pieces.back().erase(pieces.back().find_last_not_of(' ') + 1);
      if (at == std::string::npos) break;
      pieces.emplace_back();
      used = breakable = partable = 0;
      continue;
    }
    if (used == width && width > 0) {
      if (breakable == 0) breakable = partable;
      std::string rest = breakable > 0 ? pieces.back().substr(breakable) : "";
      if (breakable > 0) pieces.back().resize(breakable);
      pieces.back().erase(pieces.back().find_last_not_of(' ') + 1);
      used = display_width(rest);
      breakable = partable = 0;
      pieces.push_back(std::move(rest));
    }
    pieces.back().append(text, at, end - at);
    ++used;
    if (may_break_after(text[at])) breakable = pieces.back().size();
    if (may_part_after(text[at])) partable = pieces.back().size();
    at = end;
  }
  return pieces;
}

std::string paragraph(const std::string& text, std::size_t columns) {
  if (columns == 0) return text + "\n";
  std::string lines;
  for (const std::string& line : wrapped(text, columns)) lines += line + "\n";
  return lines;
}

std::string prose(const std::string& text, std::size_t columns) {
  std::string joined = text;
  std::replace(joined.begin(), joined.end(), '\n', ' ');
  joined.erase(joined.find_last_not_of(' ') + 1);
  return joined.empty() ? "" : paragraph(joined, columns);
}

std::string fit(const std::string& text, std::size_t columns) {
  if (display_width(text) <= columns) return text;
  std::string cut;
  std::size_t width = 0;
  for (const char c : text) {
    if ((c & 0xC0) != 0x80 && ++width >= columns) break;
    cut += c;
  }
  return cut + "…";
}

Table::Table(std::vector<std::string> header, std::vector<std::size_t> right) : right_(std::move(right)) {
  rows_.push_back(std::move(header));
  paints_.push_back(Paint::faint);
}

std::string painted(const std::string& text, Paint paint, bool colours) {
  // Reset, bold, green, yellow, red, dim.
  constexpr const char* kCodes[] = {"0", "1", "32", "33", "31", "2"};
  if (!colours || paint == Paint::none || text.empty()) return text;
  return std::string("\033[") + kCodes[static_cast<int>(paint)] + "m" + text + "\033[0m";
}

void Table::add(std::vector<std::string> row, Paint paint) {
  for (std::string& cell : row) cell = escape_controls(cell, LineEnds::escaped);
  rows_.push_back(std::move(row));
  paints_.push_back(paint);
}

void Table::give_way(const std::vector<std::string>& names, const std::string& indent, std::size_t columns, Keep keep) {
  for (const std::string& name : names) {
    const std::vector<std::size_t> whole = widths(0);
    const bool rows_fit =
        columns == 0 || std::accumulate(whole.begin(), whole.end(), 2 * (whole.size() - 1)) <= room(indent, columns);
    if (keep == Keep::rows ? rows_fit : !breaks_words(indent, columns)) return;
    const auto found = std::ranges::find(rows_.front(), name);
    const auto column = static_cast<std::size_t>(found - rows_.front().begin());
    if (found == rows_.front().end()) continue;
    for (std::vector<std::string>& row : rows_) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
    std::erase(right_, column);
    for (std::size_t& right : right_) right -= right > column;
  }
}

bool Table::is_right(std::size_t column) const {
  return std::find(right_.begin(), right_.end(), column) != right_.end();
}

std::vector<std::size_t> Table::longest_parts(bool (*ends)(char)) const {
  std::vector<std::size_t> longest;
  for (const auto& row : rows_) {
    longest.resize(std::max(longest.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) longest[i] = std::max(longest[i], longest_part(row[i], ends));
  }
  return longest;
}

bool Table::breaks_words(const std::string& indent, std::size_t columns) const {
  const std::vector<std::size_t> widths = this->widths(room(indent, columns));
  if (widths.empty() || columns == 0) return false;
  const std::vector<std::size_t> words = longest_parts(may_break_after);
  const std::size_t line = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  if (line > room(indent, columns)) return true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (widths[i] < words[i]) return true;
  }
  return false;
}

// The widths that the cells need, with the widest narrowed until a line fits in `columns`.
std::vector<std::size_t> Table::widths(std::size_t columns) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  if (widths.empty() || columns == 0) return widths;
  // Names are broken only if nothing else is left.
  const std::vector<std::size_t> words = longest_parts(may_break_after);
  const std::vector<std::size_t> parts = longest_parts([](char c) { return may_break_after(c) || may_part_after(c); });
  std::size_t total = std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
  const auto shrink = [&](const auto& narrowest) {
    while (total > columns) {
      std::size_t widest = widths.size();
      for (std::size_t i = 0; i < widths.size(); ++i) {
        if (is_right(i) || widths[i] <= narrowest(i)) continue;
        if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
      }
      if (widest == widths.size()) break;
      --widths[widest];
      --total;
    }
  };
  for (const std::vector<std::size_t>& kept : {words, parts}) {
    for (const std::size_t least : {kNarrow, kNarrowest})
      shrink([&](std::size_t i) { return std::max(kept[i], least); });
  }
  shrink([](std::size_t) { return kNarrow; });
  shrink([](std::size_t) { return kNarrowest; });
  return widths;
}

std::string Table::text(const std::string& indent, std::size_t columns, bool colours) const {
  const std::vector<std::size_t> widths = this->widths(room(indent, columns));
  std::string text;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const std::vector<std::string>& row = rows_[r];
    if (row.empty()) continue;
    std::vector<std::vector<std::string>> cells;
    std::size_t lines = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(wrapped(row[i], widths[i]));
      lines = std::max(lines, cells.back().size());
    }
    for (std::size_t n = 0; n < lines; ++n) {
      std::string line = indent;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string cell = n < cells[i].size() ? cells[i][n] : "";
        const std::string padding(widths[i] - display_width(cell), ' ');
        line += (i > 0 ? "  " : "") + (is_right(i) ? padding + cell : cell + padding);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += painted(line, paints_[r], colours) + "\n";
    }
  }
  return text;
}

}  // namespace moetune
