// Texts that tests read and alter.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace moetune::testing {

// "" unless it is a regular file: a device has no end.
inline std::string read_text(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path)) return "";
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// With `to` in the place of the first `from`, which must be there.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the text does not hold " + from);
  return text.replace(at, from.size(), to);
}

}  // namespace moetune::testing
