// UTC times as the cache stores them (2026-11-23T16:33:12Z). Pure functions.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace moetune {

using UtcSeconds = std::chrono::sys_seconds;

std::optional<UtcSeconds> parse_utc(const std::string& text);
std::string utc_text(UtcSeconds time);
// "3 min", "5 h", "12 d", "2 y"; "-" for a text that is no time, "now" for one that is not over.
std::string age_text(const std::string& stored_at, UtcSeconds now);

}  // namespace moetune
