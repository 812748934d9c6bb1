#include "search/point_check.h"

#include <algorithm>

#include "search/environment.h"

namespace moetune {

PointCheck::PointCheck(const SpaceFile& file, const Assignment& environment)
    : file_(file), environment_(environment), bindings_(environment_bindings(file, environment)) {
  for (const SpaceFile::Let& let : file.lets) {
    if (!let.of_parameters) bindings_[let.slot] = {true, false, evaluate(let.expression)};
  }
}

std::int64_t PointCheck::evaluate(const Expression& expression) const { return evaluate(expression, bindings_); }

std::int64_t PointCheck::evaluate(const Expression& expression, const std::vector<Binding>& bindings) const {
  require_known(expression, file_, environment_, bindings_);
  return expression.evaluate(file_.vocabulary, bindings).value_or(kUndefined);
}

bool PointCheck::holds(const Expression& condition, const std::vector<Binding>& bindings) const {
  const std::int64_t value = evaluate(condition, bindings);
  return value != 0 && value != kUndefined;
}

bool PointCheck::is_legal(const Config& config, Rules rules) const {
  std::vector<Binding> bindings = bindings_;
  for (std::size_t p = 0; p < file_.parameters.size(); ++p) {
    const Value& value = *config.find(file_.parameters[p].name);
    bindings[p] = {true, false, value.is_named() ? *file_.vocabulary.interned(value.name) : value.number};
  }
  for (const SpaceFile::Gate& gate : file_.gates) {
    const Parameter& parameter = file_.parameters[gate.parameter];
    const bool takes = parameter.values[gate.position].text() == config.find(parameter.name)->text();
    if (takes && !holds(gate.condition)) return false;
  }
  for (const SpaceFile::Let& let : file_.lets) {
    if (let.of_parameters) bindings[let.slot] = {true, false, evaluate(let.expression, bindings)};
  }
  return std::ranges::all_of(file_.constraints, [&](const auto& constraint) {
    return !applies(constraint.kind, rules) || holds(constraint.expression, bindings);
  });
}

}  // namespace moetune
