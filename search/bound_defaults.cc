#include "search/bound_defaults.h"

#include <algorithm>

namespace moetune {

BoundDefaults::BoundDefaults(const SpaceFile& file, Assignment environment,
                             const std::vector<std::string>& varying)
    : file_(file),
      environment_(std::move(environment)),
      names_(file),
      known_(environment_bindings(file, environment_, names_)),
      bindings_(known_),
      slots_(known_.size()) {
  for (Slot slot = 0; slot < known_.size(); ++slot) slots_[slot] = known_[slot].value;
  for (const std::string& name : varying) {
    varying_.push_back(file.vocabulary.find(name));
    if (varying_.back()) bindings_[*varying_.back()].known = false;
  }
  for (const SpaceFile::Let& let : file.lets) {
    if (let.of_parameters) continue;
    Program program = compile(let.expression, bindings_);
    if (program.is_constant()) {
      bindings_[let.slot] = {true, false, program.constant_value()};
      slots_[let.slot] = program.constant_value();
    } else {
      lets_.push_back({let.slot, std::move(program)});
    }
  }
  for (const SpaceFile::Default& rule : file.defaults) {
    Default& made = defaults_.emplace_back();
    if (!rule.choice) {
      made.candidates.push_back({rule.config});
      continue;
    }
    for (const Value& value : rule.choice->values) {
      made.candidates.push_back({rule.config});
      made.candidates.back().config.set(file.parameters[rule.choice->parameter].name, value);
    }
  }
}

void BoundDefaults::set(std::size_t i, const Value& value) {
  if (varying_[i]) slots_[*varying_[i]] = value.is_named() ? names_.number(value.name) : value.number;
}

const Config* BoundDefaults::find() {
  for (const Step& let : lets_) slots_[let.slot] = let.program.run(slots_.data());
  for (const Rules rules : {Rules::all, Rules::must}) {
    for (std::size_t rule = 0; rule < defaults_.size(); ++rule) {
      if (const Config* const config = find(rule, rules)) return config;
    }
  }
  return nullptr;
}

const Config* BoundDefaults::find(std::size_t rule, Rules rules) {
  const SpaceFile::Default& stated = file_.defaults[rule];
  Default& bound = defaults_[rule];
  if (stated.when && !compiled(bound.when, *stated.when).holds(slots_.data())) return nullptr;
  if (!stated.choice) {
    Candidate& only = bound.candidates.front();
    return is_legal(only, rules) ? &only.config : nullptr;
  }
  // kUndefined is below every value.
  const std::int64_t limit = compiled(bound.at_most, stated.choice->at_most).run(slots_.data());
  for (std::size_t i = 0; i < bound.candidates.size(); ++i) {
    if (stated.choice->values[i].number > limit) continue;
    if (is_legal(bound.candidates[i], rules)) return &bound.candidates[i].config;
  }
  return nullptr;
}

bool BoundDefaults::is_legal(Candidate& candidate, Rules rules) {
  if (!candidate.compiled) compile(candidate);
  if (candidate.broken && applies(*candidate.broken, rules)) return false;
  for (const Step& let : candidate.lets) slots_[let.slot] = let.program.run(slots_.data());
  return std::all_of(candidate.rules.begin(), candidate.rules.end(), [&](const Rule& rule) {
    return !applies(rule.kind, rules) || rule.program.holds(slots_.data());
  });
}

void BoundDefaults::compile(Candidate& candidate) const {
  candidate.compiled = true;
  std::vector<Binding> bindings = bindings_;
  for (std::size_t p = 0; p < file_.parameters.size(); ++p) {
    const Value& value = *candidate.config.find(file_.parameters[p].name);
    bindings[p] = {true, false, value.is_named() ? *file_.vocabulary.interned(value.name) : value.number};
  }
  const auto require = [&](ConstraintKind kind, const Expression& expression) {
    Program program = compile(expression, bindings);
    if (!program.is_constant()) return candidate.rules.push_back({kind, std::move(program)});
    if (program.holds(nullptr) || candidate.broken == ConstraintKind::must) return;
    candidate.broken = kind;
  };
  for (const SpaceFile::Gate& gate : file_.gates) {
    const Parameter& parameter = file_.parameters[gate.parameter];
    if (parameter.values[gate.position] == *candidate.config.find(parameter.name))
      require(ConstraintKind::must, gate.condition);
  }
  for (const SpaceFile::Let& let : file_.lets) {
    if (!let.of_parameters) continue;
    Program program = compile(let.expression, bindings);
    if (program.is_constant()) {
      bindings[let.slot] = {true, false, program.constant_value()};
    } else {
      candidate.lets.push_back({let.slot, std::move(program)});
    }
  }
  for (const SpaceFile::Constraint& constraint : file_.constraints)
    require(constraint.kind, constraint.expression);
  if (candidate.broken == ConstraintKind::must) candidate.rules.clear();
  keep_needed_lets(candidate);
}

void BoundDefaults::keep_needed_lets(Candidate& candidate) const {
  std::vector<bool> needed(slots_.size());
  const auto mark = [&](const Program& program) {
    for (const Slot slot : program.loads()) needed[slot] = true;
  };
  for (const Rule& rule : candidate.rules) mark(rule.program);
  for (std::size_t i = candidate.lets.size(); i-- > 0;) {  // each comes after the lets that it uses
    if (needed[candidate.lets[i].slot]) mark(candidate.lets[i].program);
  }
  std::erase_if(candidate.lets, [&](const Step& let) { return !needed[let.slot]; });
}

Program BoundDefaults::compile(const Expression& expression, const std::vector<Binding>& bindings) const {
  require_known(expression, file_, environment_, known_);
  return expression.compile(file_.vocabulary, bindings);
}

const Program& BoundDefaults::compiled(std::optional<Program>& program, const Expression& expression) const {
  if (!program) program = compile(expression, bindings_);
  return *program;
}

}  // namespace moetune
