#include "cli/text.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace moetune {

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

std::string programs_text(std::size_t compiled) {
  return compiled == 0 ? "the references and the harness came from the cache\n"
                       : format("%zu of the references and the harness were compiled for this\n", compiled);
}

std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
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
}

void Table::add(std::vector<std::string> row) {
  for (std::string& cell : row) {
    cell = escape_controls(cell);
    for (std::size_t at; (at = cell.find('\n')) != std::string::npos;) cell.replace(at, 1, "\\n");
  }
  rows_.push_back(std::move(row));
}

std::string Table::text(const std::string& indent) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  for (const auto& row : rows_) {
    if (row.empty()) continue;
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - display_width(row[i]), ' ');
      const bool right = std::find(right_.begin(), right_.end(), i) != right_.end();
      line += (i > 0 ? "  " : "") + (right ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace moetune
