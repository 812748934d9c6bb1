// A dimension and the values that it is to be served for. A plain value.
#pragma once

#include <cstdint>
#include <string>

namespace moetune {

struct DimensionRange {
  std::string name;
  std::int64_t first = 1, last = 1;  // both included

  bool operator==(const DimensionRange&) const = default;
};

}  // namespace moetune
