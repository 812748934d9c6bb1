#include "search/vocabulary.h"

#include <algorithm>

#include "base/lists.h"

namespace moetune {

Slot Vocabulary::add(Symbol symbol) {
  symbols_.push_back(std::move(symbol));
  return static_cast<Slot>(symbols_.size() - 1);
}

Slot Vocabulary::add_parameter(const Parameter& parameter) {
  Symbol symbol{Kind::parameter, parameter.name, parameter.is_named(), {}};
  if (symbol.named) {
    for (const Value& value : parameter.values) {
      symbol.domain.push_back(value.name);
      intern(value.name);
    }
  }
  return add(std::move(symbol));
}

Slot Vocabulary::add_let(std::string_view name) { return add({Kind::let, std::string(name), false, {}}); }

Slot Vocabulary::add_environment(std::string_view name) {
  if (const std::optional<Slot> slot = find(name)) return *slot;
  return add({Kind::environment, std::string(name), false, {}});
}

std::optional<Slot> Vocabulary::find(std::string_view name) const {
  const auto it = std::ranges::find(symbols_, name, &Symbol::name);
  if (it == symbols_.end()) return std::nullopt;
  return static_cast<Slot>(it - symbols_.begin());
}

std::vector<std::string> Vocabulary::names() const { return gathered(symbols_, &Symbol::name); }

std::int64_t Vocabulary::intern(std::string_view name) {
  if (const std::optional<std::int64_t> number = interned(name)) return *number;
  interned_.emplace_back(name);
  return static_cast<std::int64_t>(interned_.size() - 1);
}

std::optional<std::int64_t> Vocabulary::interned(std::string_view name) const {
  const auto it = std::find(interned_.begin(), interned_.end(), name);
  if (it == interned_.end()) return std::nullopt;
  return it - interned_.begin();
}

}  // namespace moetune
