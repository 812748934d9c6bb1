#include "kernels/entry_name.h"

namespace moetune {

std::string mangled_start(std::string_view entry) {
  std::string parts;
  std::size_t count = 0;
  for (std::size_t begin = 0, end = 0; begin <= entry.size(); begin = end + 2, ++count) {
    end = std::min(entry.find("::", begin), entry.size());
    parts += std::to_string(end - begin) + std::string(entry.substr(begin, end - begin));
  }
  return (count > 1 ? "_ZN" : "_Z") + parts;
}

std::set<std::string> mangled_symbols(std::string_view cubin) {
  std::set<std::string> symbols;
  // Texts of symbol tables lie between zeros, of which a cubin is full: '_' is rarer.
  for (std::size_t at = cubin.find('_', 1); at != std::string_view::npos; at = cubin.find('_', at + 1)) {
    if (cubin[at - 1] != '\0' || !cubin.substr(at + 1).starts_with('Z')) continue;
    const std::size_t end = cubin.find('\0', at);
    if (end == std::string_view::npos) break;
    symbols.emplace(cubin.substr(at, end - at));
  }
  return symbols;
}

}  // namespace moetune
