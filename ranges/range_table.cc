#include "ranges/range_table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/stored_time.h"
#include "ranges/grid.h"

namespace moetune {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kVersion = 1;

double quantile(const std::vector<double>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::ceil(share * last))];
}

// A launch is not a thousand times as slow as another that is worth a thought.
constexpr double kMostLoss = 1e3;
constexpr double kRounding = 1e-9;
constexpr std::int64_t kMostTableShapes = 1'000'000;

double time_in(const nlohmann::json& cell, const char* name, std::string_view what) {
  const auto time = cell.at(name).get<double>();
  if (is_stored_time(time)) return time;
  throw BadInput(std::string(what) + " holds a cell whose " + name + " is " + format("%g", time));
}

double figure_in(const nlohmann::json& object, const char* name, double least, double most, std::string_view what) {
  const auto value = object.at(name).get<double>();
  if (value >= least && value <= most) return value;
  throw BadInput(std::string(what) + " claims a " + name + format(" of %g", value));
}

// A number as the document has it: a negative one would turn into a huge count.
std::size_t count_in(const nlohmann::json& number, const char* name, std::string_view what) {
  const auto value = number.get<double>();
  if (number.is_number_integer() && value >= 0 && value <= kMostTableShapes) return number.get<std::size_t>();
  throw BadInput(std::string(what) + " claims a number of " + name + format(" of %g", value));
}

RangeCertificate parse_certificate(const nlohmann::json& seen, std::string_view what) {
  RangeCertificate certificate{.shapes = count_in(seen.at("shapes"), "shapes", what),
                               .median = figure_in(seen, "median", 0, kMostLoss, what),
                               .p95 = figure_in(seen, "p95", 0, kMostLoss, what),
                               .worst = figure_in(seen, "worst", 0, kMostLoss, what),
                               .worst_to_default = figure_in(seen, "worst_to_default", -1, kMostLoss, what)};
  if (const auto failed = seen.find("failed"); failed != seen.end())
    certificate.failed = count_in(*failed, "failed shapes", what);
  if (certificate.median > certificate.p95 || certificate.p95 > certificate.worst)
    throw BadInput(std::string(what) + " claims to lose less at worst than elsewhere");
  return certificate;
}

RangeCell parse_cell(const nlohmann::json& one, std::string_view what) {
  RangeCell cell{one.at("problem").get<std::string>(), one.at("config").get<std::string>(),
                 time_in(one, "time_us", what), one.at("default_us").get<double>(), time_in(one, "best_us", what)};
  if (cell.default_us != 0) time_in(one, "default_us", what);
  if (const auto found = one.find("default"); found != one.end()) found->get_to(cell.default_config);
  if (cell.default_us > 0 && cell.time_us > cell.default_us * (1 + RangeCell::kTie))
    throw BadInput(std::string(what) + " picks what lost to the default at " + cell.problem);
  if (cell.best_us > cell.time_us) throw BadInput(std::string(what) + " is faster than the best at " + cell.problem);
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
                    {"default", cell.default_config},
                    {"default_us", cell.default_us},
                    {"best_us", cell.best_us}});
  }
  const Json seen = {{"shapes", certificate.shapes},
                     {"median", certificate.median},
                     {"p95", certificate.p95},
                     {"worst", certificate.worst},
                     {"worst_to_default", certificate.worst_to_default},
                     {"failed", certificate.failed}};
  const Json document{{"moetune_range", kVersion}, {"ranges", ranges},    {"bound", bound},          {"kept", kept},
                      {"contended", contended},    {"certificate", seen}, {"cells", std::move(list)}};
  return document.dump();
}

RangeTable RangeTable::parse(std::string_view text, std::string_view what) {
  const nlohmann::json document = parse_json(text, what);
  try {
    const auto version = document.at("moetune_range").get<std::int64_t>();
    if (version != kVersion)
      throw BadInput(std::string(what) + " is of version " + std::to_string(version) + "; this moetune reads " +
                     std::to_string(kVersion));
    RangeTable table;
    document.at("ranges").get_to(table.ranges);
    parse_ranges(table.ranges);
    table.bound = figure_in(document, "bound", 0, kMostLoss, what);
    document.at("kept").get_to(table.kept);
    document.at("contended").get_to(table.contended);
    table.certificate = parse_certificate(document.at("certificate"), what);
    const nlohmann::json& cells = document.at("cells");
    if (!cells.is_array() || cells.size() > kMostCells)
      throw BadInput(std::string(what) + " has no list of at most " + std::to_string(kMostCells) + " cells");
    for (const nlohmann::json& one : cells) table.cells.push_back(parse_cell(one, what));
    if (table.kept && table.worst_cell() > table.bound + kRounding)
      throw BadInput(std::string(what) + " claims to keep its bound, and does not");
    return table;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(std::string(what) + " is none of moetune's: " + json_error_text(error));
  }
}

}  // namespace moetune
