#include "kernels/entry_name.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

using moetune::mangled_symbols;

using namespace std::string_literals;

TEST_CASE("a cubin's mangled names are the texts between zeros that begin with _Z") {
  CHECK(mangled_symbols("").empty());
  CHECK(mangled_symbols("_").empty());
  CHECK(mangled_symbols("_Z1a\0"s).empty());  // nothing stands before it
  CHECK(mangled_symbols("\0_"s).empty());
  CHECK(mangled_symbols("\0_Z1a"s).empty());  // cut off
  CHECK(mangled_symbols("\0_Y\0_\0__Z1a\0x_Z1b\0.text._Z1c\0"s).empty());
  CHECK(mangled_symbols("\0_Z\0"s) == std::set{"_Z"s});
  CHECK(mangled_symbols("\0_Z1a_Z1b\0\0_Z1_\0_Z1a_Z1b\0_Zcut"s) == std::set{"_Z1a_Z1b"s, "_Z1_"s});
}
