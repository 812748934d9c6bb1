#include "tuner/timings.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_fields.h"

namespace moetune {
std::string timings_text(const std::vector<TimingResult>& results) {
  if (results.empty()) return "";
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const TimingResult& one : results) {
    document[std::string(timing_name(one.timing))] = {{"time_us", one.winner_us},
                                                      {"default_us", one.default_us},
                                                      {"fastest", one.fastest},
                                                      {"fastest_us", one.fastest_us}};
  }
  return document.dump();
}

std::vector<TimingResult> parse_timings(std::string_view text) {
  std::vector<TimingResult> results;
  if (text.empty()) return results;
  const nlohmann::json document = parse_json_or_discard(text);
  if (!document.is_object()) return results;
  for (const Timing timing : kTimings) {
    const auto found = document.find(timing_name(timing));
    if (found == document.end() || !found->is_object()) continue;
    const auto fastest = found->find("fastest");
    if (fastest == found->end() || !fastest->is_string()) continue;
    results.push_back({timing, time_field(*found, "time_us"), time_field(*found, "default_us"),
                       fastest->get<std::string>(), time_field(*found, "fastest_us")});
  }
  return results;
}

std::vector<Timing> differing_timings(const std::vector<TimingResult>& results, std::string_view winner) {
  std::vector<Timing> differing;
  for (const TimingResult& one : results) {
    if (one.fastest != winner) differing.push_back(one.timing);
  }
  return differing;
}

}  // namespace moetune
