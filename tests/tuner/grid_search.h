// Searches of 8 x 8 points on a scripted device.
#pragma once

#include "tests/tuner/scripted_device.h"
#include "tuner/tune.h"

namespace moetune {

// 8 x 8 points, x * y landscape with its optimum at (3, 5).
inline LegalSpace grid() {
  std::vector<Parameter> parameters = {{"x", {}, ""}, {"y", {}, ""}};
  for (int v = 0; v < 8; ++v) {
    parameters[0].values.push_back(Value::integer(v));
    parameters[1].values.push_back(Value::integer(v));
  }
  std::vector<Position> rows;
  for (Position x = 0; x < 8; ++x) {
    for (Position y = 0; y < 8; ++y) rows.insert(rows.end(), {x, y});
  }
  return LegalSpace(parameters, rows);
}

inline double landscape(const Config& config) {
  const double dx = static_cast<double>(config.number("x")) - 3, dy = static_cast<double>(config.number("y")) - 5;
  return 100 + 10 * (dx * dx + dy * dy);
}

struct Search {
  LegalSpace space = grid();
  ScriptedDevice device;
  TuneRequest request;

  Search() {
    device.answer = [](const Config& config) { return timed(landscape(config)); };
    request.space = &space;
    request.strategy = "random";
    request.budget = 40;
    request.in_flight = 4;
  }
  TuneResult run(Cache* cache = nullptr, std::int64_t workload = 0, std::stop_token stop = {}, Events events = {}) {
    return tune(request, {.device = device, .cache = cache, .workload = workload, .events = std::move(events)}, stop);
  }
};

}  // namespace moetune
