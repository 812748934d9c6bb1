#include "search/bound_space.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {

BoundSpace::BoundSpace(const SpaceFile& file, const Assignment& environment, Rules rules)
    : file_(file), environment_(environment) {
  bind_environment(environment);
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

void BoundSpace::bind_environment(const Assignment& environment) {
  bindings_.resize(file_.vocabulary.size());
  std::vector<std::string> names = file_.vocabulary.interned_names();
  const auto intern = [&](const std::string& name) {
    const auto it = std::find(names.begin(), names.end(), name);
    if (it != names.end()) return static_cast<std::int64_t>(it - names.begin());
    names.push_back(name);
    return static_cast<std::int64_t>(names.size() - 1);
  };
  for (Slot slot = 0; slot < bindings_.size(); ++slot) {
    const Vocabulary::Symbol& symbol = file_.vocabulary[slot];
    if (symbol.kind != Vocabulary::Kind::environment) continue;
    if (const Value* value = environment.find(symbol.name)) {
      bindings_[slot] = {true, value->is_named(), value->is_named() ? intern(value->name) : value->number};
    }
  }
}

void BoundSpace::require_known(const Expression& expression) const {
  for (const Slot slot : expression.slots()) {
    const Vocabulary::Symbol& symbol = file_.vocabulary[slot];
    if (symbol.kind != Vocabulary::Kind::environment || bindings_[slot].known) continue;
    std::vector<std::string> known;
    for (const auto& [name, ignored] : environment_) known.push_back(name);
    const std::string what = known.empty()
                                 ? "unknown name '" + symbol.name + "'; no problem or device is given"
                                 : unknown_name("name", symbol.name, known);
    throw_at(expression.where(), expression.text(), expression.column_of(slot), what);
  }
}

std::int64_t BoundSpace::evaluate(const Expression& expression) const {
  require_known(expression);
  return expression.compile(file_.vocabulary, bindings_).run(nullptr);
}

bool BoundSpace::holds(const Expression& condition) const {
  const std::int64_t value = evaluate(condition);
  return value != 0 && value != kUndefined;
}

BoundSpace::Rule BoundSpace::bind(const Expression& expression) const {
  require_known(expression);
  Rule rule{expression.compile(file_.vocabulary, bindings_), {}, {}};
  std::set<std::size_t> parameters;
  std::set<std::size_t> lets;
  for (const Slot slot : rule.program.loads()) {
    if (file_.vocabulary[slot].kind == Vocabulary::Kind::parameter) {
      parameters.insert(slot);
      continue;
    }
    const auto let =
        std::find_if(file_.lets.begin(), file_.lets.end(), [&](const auto& l) { return l.slot == slot; });
    const auto index = static_cast<std::size_t>(let - file_.lets.begin());
    parameters.insert(lets_[index].parameters.begin(), lets_[index].parameters.end());
    lets.insert(lets_[index].lets.begin(), lets_[index].lets.end());
    lets.insert(index);
  }
  rule.parameters.assign(parameters.begin(), parameters.end());
  rule.lets.assign(lets.begin(), lets.end());
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
  for (std::size_t let = 0; let < lets_.size(); ++let)
    slots[let_slot(let)] = lets_[let].program.run(slots.data());
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
