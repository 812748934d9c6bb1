// Winners and range tables with right digests that no honest search stores. Each says what is to be named.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/soundness/records.h"

namespace moetune::testing {

struct ForgedWinner {
  std::string what;  // is named
  std::function<void(Workload&, WinnerRecord&)> forge;
};

inline std::vector<ForgedWinner> forged_winners() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  using W = Workload;
  using R = WinnerRecord;
  return {
      {"it took 1e+308", [](W&, R& r) { r.time_us = r.interval_low_us = r.interval_high_us = 1e308; }},
      {"it took inf", [=](W&, R& r) { r.time_us = r.interval_high_us = kInfinity; }},
      {"it took -3", [](W&, R& r) { r.time_us = -3; }},
      {"the default beside it took -1", [](W&, R& r) { r.default_time_us = -1; }},
      {"the default beside it took inf", [=](W&, R& r) { r.default_time_us = kInfinity; }},
      {"its interval is 101 to 99", [](W&, R& r) { std::swap(r.interval_low_us, r.interval_high_us); }},
      {"its interval is 99 to inf", [=](W&, R& r) { r.interval_high_us = kInfinity; }},
      {"lies outside of its interval",  // which would win every merge
       [](W&, R& r) { r.interval_low_us = r.interval_high_us = 1; }},
      {"faster than the GPU can be", [](W&, R& r) { r.time_us = r.interval_low_us = r.interval_high_us = 1e-5; }},
      {"its roofline fraction is inf", [=](W&, R& r) { r.roofline = kInfinity; }},
      {"its roofline fraction is -0.5", [](W&, R& r) { r.roofline = -0.5; }},
      {"faster than its GPU can be: 130.0%", [](W&, R& r) { r.roofline = 1.3; }},
      {"'9999', which is no time", [](W&, R& r) { r.stored_at = "9999"; }},
      {"its time_us of alone is 1e+308",
       [](W&, R& r) { r.timings = R"({"alone":{"time_us":1e308,"fastest":"x","fastest_us":1}})"; }},
      {"its times by timing cannot be read", [](W&, R& r) { r.timings = "[1]"; }},
      {"its configuration: unknown value of tile '65'",
       [](W&, R& r) { r.config.replace(r.config.find("tile=64"), 7, "tile=65"); }},
      {"its configuration: 'x' is not name=value", [](W&, R& r) { r.default_launch.config = "x"; }},
      {"its launch plan is not what decode_attention plans",
       [](W& w, R& r) { r.plan = decode_launch(stored_problem(decode(), w.key), 32).plan; }},
      {"its launch plan cannot be read", [](W&, R& r) { r.default_launch.plan = "["; }},
      {"takes more scratch memory than the GPU has",  // both together
       [](W& w, R& r) {
         Plan plan = nlohmann::json::parse(r.plan).get<Plan>();
         const std::int64_t most_of_it = w.key.hardware.memory_bytes / 3 * 2;
         plan.scratch = {{"one", most_of_it}, {"two", most_of_it}};
         r.plan = nlohmann::json(plan).dump();
       }},
      {"its cubin takes other parameters", [](W&, R& r) { r.interface = "of another kernel"; }},
      {"its cubin is empty", [](W&, R& r) { r.cubin.clear(); }},
      {"its cubin has no kernel decode_attention",
       [](W&, R& r) { r.cubin = {0x7f, 'E', 'L', 'F', '.', 't', 'e', 'x', 't', '.', 'x', 0}; }},
      {"its provenance cannot be read as JSON", [](W&, R& r) { r.provenance = "[]"; }},
      {"of another family than it is stored for", [](W& w, R&) { w.family = "group=1,head_dim=128"; }},
      {"no GPU is like its hardware", [](W& w, R&) { w.key.hardware.sm_count = -132; }},
      {"no GPU is like its hardware", [](W& w, R&) { w.key.hardware.memory_bytes = std::int64_t{1} << 62; }},
      {"its problem should be written", [](W& w, R&) { w.key.problem = "batch=8"; }},
  };
}

struct ForgedTable {
  std::string what;
  std::function<void(RangeTable&, RangeKey&, RangeRecord&)> forge;
};

inline std::vector<ForgedTable> forged_tables() {
  using T = RangeTable;
  using K = RangeKey;
  using R = RangeRecord;
  const std::string other =
      stored_problem(decode(), "batch=2,q_heads=4,kv_heads=1,head_dim=128,context=64,page=16").text();
  return {
      {"claims a bound of 1e+308", [](T& t, K&, R&) { t.bound = 1e308; }},
      {"claims a bound of -1", [](T& t, K&, R&) { t.bound = -1; }},
      {"claims a median of -5", [](T& t, K&, R&) { t.certificate.median = -5; }},
      {"claims a worst of 1e+308", [](T& t, K&, R&) { t.certificate.worst = 1e308; }},
      {"claims a worst_to_default of -2", [](T& t, K&, R&) { t.certificate.worst_to_default = -2; }},
      {"claims to lose less at worst", [](T& t, K&, R&) { t.certificate.worst = 0; }},
      {"claims a number of shapes", [](T& t, K&, R&) { t.certificate.shapes = ~std::size_t{0}; }},
      {"claims a number of failed shapes", [](T& t, K&, R&) { t.certificate.failed = 1u << 30; }},
      {"claims to keep its bound, and does not", [](T& t, K&, R&) { t.cells[4].best_us = 5; }},
      {"whose time_us is 1e+308",
       [](T& t, K&, R&) { t.cells[4].time_us = t.cells[4].default_us = t.cells[4].best_us = 1e308; }},
      {"whose default_us is 1e+300", [](T& t, K&, R&) { t.cells[4].default_us = 1e300; }},
      {"whose best_us is -1", [](T& t, K&, R&) { t.cells[4].best_us = -1; }},
      {"picks what lost to the default", [](T& t, K&, R&) { t.cells[4].default_us = 10.05; }},
      {"faster than the GPU can be",
       [](T& t, K&, R&) {
         t.kept = false;
         t.cells[4].best_us = 1e-5;
       }},
      {"of another family than it is stored for", [=](T& t, K&, R&) { t.cells[4].problem = other; }},
      {"of another family than it is stored for", [](T&, K& k, R&) { k.family = "group=1,head_dim=128"; }},
      {"its cell: ", [](T& t, K&, R&) { t.cells[4].problem = "batch=0"; }},
      {"two cells at", [](T& t, K&, R&) { t.cells[4].problem = t.cells[3].problem; }},
      {"its configuration: ", [](T& t, K&, R&) { t.cells[4].config = "tile=64"; }},
      {"it lacks the cubin of", [](T& t, K&, R&) { t.cells[4].config = decode_config(16); }},
      {"it lacks the cubin of", [](T&, K&, R& r) { r.variants.pop_back(); }},
      {"its configuration: ", [](T&, K&, R& r) { r.variants[1].config = "tile=32"; }},
      {"its cubin takes other parameters", [](T&, K&, R& r) { r.variants[1].interface = "of another kernel"; }},
      {"ends before it begins", [](T& t, K&, R&) { t.ranges = "batch=32..2,context=64..1024"; }},
      {"its configuration: ", [](T& t, K&, R&) { t.cells[4].default_config = "tile=64"; }},
      {"which is no time", [](T&, K&, R& r) { r.stored_at = "tomorrow"; }},
      {"no GPU is like its hardware", [](T&, K& k, R&) { k.hardware.sm_clock_khz = -1; }},
  };
}

}  // namespace moetune::testing
