// Configurations that name their parameters, row by row: their values become the domains. First every row is seen, then
// the domains are sealed, then each row is a point.
//
// `row` names one in errors: "FILE: result 3". Throws BadInput for a row that lacks a parameter of the others, names
// one twice or not at all, and for too many parameters or values.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "replay/result_domain.h"

namespace moetune {

inline constexpr std::size_t kMostParameters = 128;

class ConfiguredRows {
 public:
  void see(const std::vector<NamedValue>& configuration, const std::string& row);
  void seal();
  std::vector<Position> point(const std::vector<NamedValue>& configuration, const std::string& row) const;
  std::vector<Parameter> parameters(std::string_view file) const;

 private:
  std::vector<std::string> names_;  // in the order of the first row
  std::map<std::string, std::size_t> index_;
  std::vector<ResultDomain> domains_;
};

}  // namespace moetune
