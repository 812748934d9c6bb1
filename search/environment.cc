#include "search/environment.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/suggest.h"

namespace moetune {

std::vector<Binding> environment_bindings(const SpaceFile& file, const Assignment& environment) {
  std::vector<Binding> bindings(file.vocabulary.size());
  // Names of the environment that no expression quotes come after those that one does.
  const std::vector<std::string>& quoted = file.vocabulary.interned_names();
  std::vector<std::string> others;
  const auto intern = [&](const std::string& name) {
    if (const std::optional<std::int64_t> known = file.vocabulary.interned(name)) return *known;
    const auto it = std::find(others.begin(), others.end(), name);
    const auto number = static_cast<std::int64_t>(quoted.size()) + (it - others.begin());
    if (it == others.end()) others.push_back(name);
    return number;
  };
  for (Slot slot = 0; slot < bindings.size(); ++slot) {
    const Vocabulary::Symbol& symbol = file.vocabulary[slot];
    if (symbol.kind != Vocabulary::Kind::environment) continue;
    if (const Value* value = environment.find(symbol.name)) {
      bindings[slot] = {true, value->is_named(), value->is_named() ? intern(value->name) : value->number};
    }
  }
  return bindings;
}

void require_known(const Expression& expression, const SpaceFile& file, const Assignment& environment,
                   const std::vector<Binding>& bindings) {
  for (const Slot slot : expression.slots()) {
    const Vocabulary::Symbol& symbol = file.vocabulary[slot];
    if (symbol.kind != Vocabulary::Kind::environment || bindings[slot].known) continue;
    std::vector<std::string> known;
    for (const auto& [name, ignored] : environment) known.push_back(name);
    const std::string what = known.empty()
                                 ? "unknown name '" + symbol.name + "'; no problem or device is given"
                                 : unknown_name("name", symbol.name, known);
    throw_at(expression.where(), expression.text(), expression.column_of(slot), what);
  }
}

}  // namespace moetune
