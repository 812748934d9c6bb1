#include "ranges/range_table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace moetune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kVersion = 1;

double quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::ceil(share * last))];
}

double positive_time(double time, std::string_view what) {
  if (std::isfinite(time) && time > 0) return time;
  throw BadInput(std::string(what) + " holds a cell without a time");
}

double finite(double value, std::string_view what) {
  if (std::isfinite(value)) return value;
  throw BadInput(std::string(what) + " holds a figure that is no number");
}

RangeCell parse_cell(const nlohmann::json& one, std::string_view what) {
  RangeCell cell{one.at("problem").get<std::string>(), one.at("config").get<std::string>(),
                 positive_time(one.at("time_us").get<double>(), what), one.at("default_us").get<double>(),
                 positive_time(one.at("best_us").get<double>(), what)};
  if (cell.default_us != 0) positive_time(cell.default_us, what);
  if (cell.default_us > 0 && cell.time_us > cell.default_us)
    throw BadInput(std::string(what) + " picks what lost to the default at " + cell.problem);
  if (cell.best_us > cell.time_us)
    throw BadInput(std::string(what) + " is faster than the best at " + cell.problem);
  return cell;
}

}  // namespace

RangeCertificate RangeCertificate::of(std::vector<double> regrets, const std::vector<double>& to_default) {
  RangeCertificate seen{.shapes = regrets.size()};
  if (regrets.empty()) return seen;
  std::sort(regrets.begin(), regrets.end());
  seen.median = quantile(regrets, 0.5);
  seen.p95 = quantile(regrets, 0.95);
  seen.worst = regrets.back();
  if (!to_default.empty()) seen.worst_to_default = *std::max_element(to_default.begin(), to_default.end());
  return seen;
}

double RangeTable::worst_cell() const {
  double worst = 0;
  for (const RangeCell& cell : cells) worst = std::max(worst, cell.regret());
  return worst;
}

std::string RangeTable::text() const {
  Json list = Json::array();
  for (const RangeCell& cell : cells) {
    list.push_back({{"problem", cell.problem},
                    {"config", cell.config},
                    {"time_us", cell.time_us},
                    {"default_us", cell.default_us},
                    {"best_us", cell.best_us}});
  }
  const Json seen = {{"shapes", certificate.shapes},
                     {"median", certificate.median},
                     {"p95", certificate.p95},
                     {"worst", certificate.worst},
                     {"worst_to_default", certificate.worst_to_default},
                     {"failed", certificate.failed}};
  Json document{{"moetune_range", kVersion}, {"ranges", ranges},    {"bound", bound},          {"kept", kept},
                {"contended", contended},    {"certificate", seen}, {"cells", std::move(list)}};
  if (!expected.empty()) document["expected"] = expected_json(expected);  // earlier readers pass over it
  return document.dump();
}

RangeTable RangeTable::parse(std::string_view text, std::string_view what) {
  const nlohmann::json document = parse_json(text, what);
  try {
    const auto version = document.at("moetune_range").get<std::int64_t>();
    if (version != kVersion)
      throw BadInput(std::string(what) + " is of version " + std::to_string(version) +
                     "; this moetune reads " + std::to_string(kVersion));
    RangeTable table;
    document.at("ranges").get_to(table.ranges);
    table.bound = finite(document.at("bound").get<double>(), what);
    document.at("kept").get_to(table.kept);
    document.at("contended").get_to(table.contended);
    const nlohmann::json& seen = document.at("certificate");
    table.certificate = {seen.at("shapes").get<std::size_t>(),
                         finite(seen.at("median").get<double>(), what),
                         finite(seen.at("p95").get<double>(), what),
                         finite(seen.at("worst").get<double>(), what),
                         finite(seen.at("worst_to_default").get<double>(), what),
                         seen.value("failed", std::size_t{0})};
    const nlohmann::json& cells = document.at("cells");
    if (!cells.is_array() || cells.size() > kMostCells)
      throw BadInput(std::string(what) + " has no list of at most " + std::to_string(kMostCells) + " cells");
    for (const nlohmann::json& one : cells) table.cells.push_back(parse_cell(one, what));
    if (const auto found = document.find("expected"); found != document.end())
      table.expected = parse_expected(*found, what);
    return table;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(std::string(what) + " is none of moetune's: " + json_error_text(error));
  }
}

}  // namespace moetune
