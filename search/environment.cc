#include "search/environment.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/suggest.h"

namespace moetune {

std::int64_t EnvironmentNames::number(const std::string& name) {
  if (const std::optional<std::int64_t> known = file_.vocabulary.interned(name)) return *known;
  const auto it = std::find(others_.begin(), others_.end(), name);
  const auto place = it - others_.begin();
  if (it == others_.end()) others_.push_back(name);
  return static_cast<std::int64_t>(file_.vocabulary.interned_names().size()) + place;
}

std::vector<Binding> environment_bindings(const SpaceFile& file, const Assignment& environment,
                                          EnvironmentNames& names) {
  std::vector<Binding> bindings(file.vocabulary.size());
  for (Slot slot = 0; slot < bindings.size(); ++slot) {
    const Vocabulary::Symbol& symbol = file.vocabulary[slot];
    if (symbol.kind != Vocabulary::Kind::environment) continue;
    if (const Value* value = environment.find(symbol.name)) {
      const bool named = value->is_named();
      bindings[slot] = {true, named, named ? names.number(value->name) : value->number};
    }
  }
  return bindings;
}

std::vector<Binding> environment_bindings(const SpaceFile& file, const Assignment& environment) {
  EnvironmentNames names(file);
  return environment_bindings(file, environment, names);
}

void require_known(const Expression& expression, const SpaceFile& file, const Assignment& environment,
                   const std::vector<Binding>& bindings) {
  for (const Slot slot : expression.slots()) {
    const Vocabulary::Symbol& symbol = file.vocabulary[slot];
    if (symbol.kind != Vocabulary::Kind::environment || bindings[slot].known) continue;
    std::vector<std::string> known;
    for (const auto& [name, ignored] : environment) known.push_back(name);
    const std::string what = known.empty() ? "unknown name '" + symbol.name + "'; no problem or device is given"
                                           : unknown_name("name", symbol.name, known);
    throw_at(expression.where(), expression.text(), expression.column_of(slot), what);
  }
}

}  // namespace moetune
