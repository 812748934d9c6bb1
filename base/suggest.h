// "Did you mean": the nearest of a list of names, for error messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// Up to three names within a plausible typing distance of `wanted`, nearest first (ties by list order).
std::vector<std::string> nearest_names(std::string_view wanted, const std::vector<std::string>& names);

// The one sentence every unknown name gets: `unknown KIND 'WANTED'; did you mean 'a' or 'b'?`, or
// `...; known: a, b, c` where nothing is near.
std::string unknown_name(std::string_view kind, std::string_view wanted, const std::vector<std::string>& names);

}  // namespace moetune
