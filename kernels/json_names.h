// Shared by the JSON of plans and of buffers: enumerators by name, and one error for a document of another shape. Not
// for headers that others include. Stateless.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {

template <typename Enum>
using Names = std::vector<std::pair<Enum, std::string>>;

template <typename Enum>
const std::string& name_of(const Names<Enum>& names, Enum value) {
  for (const auto& [known, name] : names) {
    if (known == value) return name;
  }
  throw std::logic_error("an enumerator without a name");
}

// Throws BadInput for an unknown name, suggesting the nearest.
template <typename Enum>
Enum from_name(const Names<Enum>& names, std::string_view kind, const std::string& wanted) {
  std::vector<std::string> known;
  for (const auto& [value, name] : names) {
    if (name == wanted) return value;
    known.push_back(name);
  }
  throw BadInput(unknown_name(kind, wanted, known));
}

// Runs `read`; what the JSON library throws becomes BadInput, saying what the document is not.
template <typename Read>
void read_as(std::string_view what, Read&& read) {
  try {
    read();
  } catch (const nlohmann::json::exception& error) {
    throw BadInput("this JSON is not a " + std::string(what) + ": " + error.what());
  }
}

}  // namespace moetune
