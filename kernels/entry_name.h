// Entries of cubins by the names that people write. A plan says "gemm" or "own::gemm"; the cubin has that name if the
// function is extern "C". Else it has a mangled name, which begins with it: of a function, or of the one instance of a
// template. Pure functions; thread-safe.
#pragma once

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace moetune {

// The first part of the mangled name of a C++ function or template: "_Z4gemm", "_ZN3own4gemm".
std::string mangled_start(std::string_view entry);

inline std::string_view symbol_of(const std::string& symbol) { return symbol; }
template <typename Facts>
std::string_view symbol_of(const std::pair<const std::string, Facts>& entry) {
  return entry.first;
}

// Finds the only mangled name of an entry in a set of symbols, or a map by them; the end if there is none, or if
// several functions share the name.
template <typename Symbols>
auto find_mangled(const Symbols& symbols, std::string_view entry) {
  const std::string start = mangled_start(entry);
  const auto is_it = [&](auto at) { return at != symbols.end() && symbol_of(*at).starts_with(start); };
  const auto found = symbols.lower_bound(start);
  return is_it(found) && !is_it(std::next(found)) ? found : symbols.end();
}

// The same by the entry's own name first, in a map.
template <typename Symbols>
auto find_entry(const Symbols& symbols, std::string_view entry) {
  const auto exact = symbols.find(std::string(entry));
  return exact != symbols.end() ? exact : find_mangled(symbols, entry);
}

// The mangled names in a cubin, whatever they are of.
std::set<std::string> mangled_symbols(std::string_view cubin);

}  // namespace moetune
