// "Did you mean": the nearest of a list of names, for error messages.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/lists.h"

namespace moetune {

// Up to three names within a plausible typing distance of `wanted`, nearest first (ties by list order).
std::vector<std::string> nearest_names(std::string_view wanted, const std::vector<std::string>& names);

// The one sentence every unknown name gets: `unknown KIND 'WANTED'; did you mean 'a' or 'b'?`, or
// `...; known: a, b, c` where nothing is near.
std::string unknown_name(std::string_view kind, std::string_view wanted, const std::vector<std::string>& names);

// The same of the names that all these have.
template <typename All, typename Name>
std::string unknown_name(std::string_view kind, std::string_view wanted, const All& all, const Name& name) {
  return unknown_name(kind, wanted, gathered<std::string>(all, name));
}

// The one that has the name. Throws BadInput with that sentence if there is none.
template <typename All, typename Name>
auto& find_by_name(std::string_view kind, std::string_view wanted, All& all, const Name& name) {
  for (auto& one : all) {
    if (std::invoke(name, one) == wanted) return one;
  }
  throw BadInput(unknown_name(kind, wanted, all, name));
}

}  // namespace moetune
