#include "search/bound_space.h"

#include <algorithm>
#include <optional>

#include "search/environment.h"

namespace moetune {
namespace {

void sort_unique(std::vector<std::size_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

BoundSpace::BoundSpace(const SpaceFile& file, const Assignment& environment, Rules rules)
    : file_(file), environment_(environment), bindings_(environment_bindings(file, environment)) {
  for (const Parameter& parameter : file.parameters) {
    std::vector<std::int64_t>& values = values_.emplace_back();
    for (const Value& value : parameter.values) {
      values.push_back(value.is_named() ? *file.vocabulary.interned(value.name) : value.number);
    }
  }
  for (const SpaceFile::Let& let : file.lets) {
    lets_.push_back(bind(let.expression));
    const Program& program = lets_.back().program;
    if (program.is_constant()) bindings_[let.slot] = {true, false, program.constant_value()};
  }
  for (const SpaceFile::Gate& gate : file.gates) {  // after the lets, which a gate may use
    if (!holds(gate.condition)) closed_gates_.push_back(&gate);
  }
  for (std::size_t c = 0; c < file.constraints.size(); ++c) {
    if (!applies(file.constraints[c].kind, rules)) continue;
    constraints_.push_back(bind(file.constraints[c].expression));
    applied_.push_back(c);
  }
  for (const SpaceFile::Kept& kept : file.kept) kept_.push_back(bind(kept.quantity));
}

std::int64_t BoundSpace::kept_quantity(std::size_t i, std::span<const Position> point) const {
  std::vector<std::int64_t> slots(slot_count());
  for (std::size_t p = 0; p < point.size(); ++p) slots[p] = value_of(p, point[p]);
  for (const std::size_t let : kept_[i].lets) slots[let_slot(let)] = lets_[let].program.run(slots.data());
  return kept_[i].program.run(slots.data());
}

std::int64_t BoundSpace::evaluate(const Expression& expression) const {
  require_known(expression, file_, environment_, bindings_);
  return expression.evaluate(file_.vocabulary, bindings_).value_or(kUndefined);
}

bool BoundSpace::holds(const Expression& condition) const {
  const std::int64_t value = evaluate(condition);
  return value != 0 && value != kUndefined;
}

BoundSpace::Rule BoundSpace::bind(const Expression& expression) const {
  require_known(expression, file_, environment_, bindings_);
  Rule rule{expression.compile(file_.vocabulary, bindings_), {}, {}};
  for (const Slot slot : rule.program.loads()) {
    if (file_.vocabulary[slot].kind == Vocabulary::Kind::parameter) {
      rule.parameters.push_back(slot);
      continue;
    }
    const auto let = std::find_if(file_.lets.begin(), file_.lets.end(), [&](const auto& l) { return l.slot == slot; });
    const auto index = static_cast<std::size_t>(let - file_.lets.begin());
    const Rule& used = lets_[index];
    rule.parameters.insert(rule.parameters.end(), used.parameters.begin(), used.parameters.end());
    rule.lets.insert(rule.lets.end(), used.lets.begin(), used.lets.end());
    rule.lets.push_back(index);
  }
  sort_unique(rule.parameters);
  sort_unique(rule.lets);
  return rule;
}

const Expression* BoundSpace::closed_gate(std::size_t parameter, Position position) const {
  for (const SpaceFile::Gate* gate : closed_gates_) {
    if (gate->parameter == parameter && gate->position == position) return &gate->condition;
  }
  return nullptr;
}

std::string BoundSpace::why_illegal(std::span<const Position> point) const {
  std::vector<std::int64_t> slots(slot_count());
  for (std::size_t p = 0; p < point.size(); ++p) {
    if (const Expression* gate = closed_gate(p, point[p])) {
      const Parameter& parameter = file_.parameters[p];
      return parameter.name + "=" + parameter.values[point[p]].text() + " needs " + gate->text();
    }
    slots[p] = value_of(p, point[p]);
  }
  for (std::size_t let = 0; let < lets_.size(); ++let) slots[let_slot(let)] = lets_[let].program.run(slots.data());
  for (std::size_t c = 0; c < constraints_.size(); ++c) {
    const std::int64_t value = constraints_[c].program.run(slots.data());
    if (value != 0 && value != kUndefined) continue;
    const SpaceFile::Constraint& broken = constraint(c);
    return broken.why + " (" + std::string(kind_name(broken.kind)) + ": " + broken.expression.text() +
           (value == kUndefined ? ", which has no value here: " + std::string(kWhyUndefined) : "") + ")";
  }
  return {};
}

}  // namespace moetune
