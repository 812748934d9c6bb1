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
  constexpr std::string_view kStart("\0_Z", 3);
  std::set<std::string> symbols;
  // Texts of symbol tables lie between zeros.
  for (std::size_t at = cubin.find(kStart); at != std::string_view::npos; at = cubin.find(kStart, at + 1)) {
    const std::size_t end = cubin.find('\0', at + 1);
    if (end == std::string_view::npos) break;
    symbols.emplace(cubin.substr(at + 1, end - at - 1));
  }
  return symbols;
}

}  // namespace moetune
