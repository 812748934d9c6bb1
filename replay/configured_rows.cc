#include "replay/configured_rows.h"

#include "base/error.h"

namespace moetune {

void ConfiguredRows::see(const std::vector<NamedValue>& configuration, const std::string& row) {
  const bool first = names_.empty();
  for (const NamedValue& one : configuration) {
    if (one.path.empty()) throw BadInput(row + " has a parameter without a name");
    const auto [known, is_new] = index_.emplace(one.path, names_.size());
    if (is_new) {
      if (!first)
        throw BadInput(row + " has a parameter " + "'" + brief_name(one.path) + "'" + ", which those before it lack");
      if (names_.size() == kMostParameters)
        throw BadInput(row + " has more than " + std::to_string(kMostParameters) + " parameters");
      names_.push_back(one.path);
      domains_.emplace_back();
    }
    ResultDomain& domain = domains_[known->second];
    if (domain.add(one.value) && domain.size() > ResultDomain::kMostValues)
      throw BadInput(row + ": " + "'" + brief_name(one.path) + "'" + " has more than 65536 values");
  }
}

void ConfiguredRows::seal() {
  for (ResultDomain& domain : domains_) domain.seal(true);
}

std::vector<Position> ConfiguredRows::point(const std::vector<NamedValue>& configuration,
                                            const std::string& row) const {
  std::vector<Position> point(names_.size());
  std::vector<bool> has(names_.size());
  for (const NamedValue& one : configuration) {
    const std::size_t p = index_.at(one.path);
    if (has[p]) throw BadInput(row + " has the parameter " + "'" + brief_name(one.path) + "'" + " twice");
    has[p] = true;
    point[p] = domains_[p].find(one.value).value();
  }
  for (std::size_t p = 0; p < names_.size(); ++p) {
    if (!has[p]) throw BadInput(row + " lacks the parameter " + "'" + brief_name(names_[p]) + "'");
  }
  return point;
}

std::vector<Parameter> ConfiguredRows::parameters(std::string_view file) const {
  if (names_.empty()) throw BadInput(std::string(file) + ": its results have no configuration");
  std::vector<Parameter> parameters;
  for (std::size_t p = 0; p < names_.size(); ++p) parameters.push_back(domains_[p].parameter(names_[p], file));
  return parameters;
}

}  // namespace moetune
