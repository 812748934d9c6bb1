#include "search/bound_defaults.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace moetune {

BoundDefaults::BoundDefaults(const SpaceFile& file, Assignment environment,
                             const std::vector<std::string>& varying)
    : file_(file),
      environment_(std::move(environment)),
      names_(file),
      known_(environment_bindings(file, environment_, names_)),
      bindings_(known_),
      slots_(known_.size()),
      depends_on_(known_.size()),
      changed_(varying.size(), now_) {
  if (varying.size() > 64) throw std::logic_error("more than 64 names of an environment vary");
  for (Slot slot = 0; slot < known_.size(); ++slot) slots_[slot] = known_[slot].value;
  for (const std::string& name : varying) {
    varying_.push_back(file.vocabulary.find(name));
    if (!varying_.back()) continue;
    bindings_[*varying_.back()].known = false;
    depends_on_[*varying_.back()] = std::uint64_t{1} << (varying_.size() - 1);
  }
  for (const SpaceFile::Let& let : file.lets) {
    if (let.of_parameters) continue;
    Program program = compile(let.expression, bindings_);
    if (program.is_constant()) {
      bindings_[let.slot] = {true, false, program.constant_value()};
      slots_[let.slot] = program.constant_value();
    } else {
      depends_on_[let.slot] = dependencies(program);
      lets_.push_back({let.slot, std::move(program), {.depends_on = depends_on_[let.slot]}});
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
  if (!varying_[i]) return;
  std::int64_t& slot = slots_[*varying_[i]];
  const std::int64_t number = value.is_named() ? names_.number(value.name) : value.number;
  if (slot == number) return;
  slot = number;
  changed_[i] = ++now_;
}

bool BoundDefaults::is_fresh(const Memo& memo) const {
  if (memo.at == 0) return false;
  for (std::uint64_t rest = memo.depends_on; rest != 0; rest &= rest - 1) {
    if (changed_[static_cast<std::size_t>(std::countr_zero(rest))] > memo.at) return false;
  }
  return true;
}

std::uint64_t BoundDefaults::dependencies(const Program& program) const {
  std::uint64_t all = 0;
  for (const Slot slot : program.loads()) all |= depends_on_[slot];
  return all;
}

const Config* BoundDefaults::find() {
  for (const Rules rules : {Rules::all, Rules::must}) {
    for (std::size_t rule = 0; rule < defaults_.size(); ++rule) {
      if (const Config* const config = find(rule, rules)) return config;
    }
  }
  return nullptr;
}

bool BoundDefaults::can_run(const Config& config) {
  auto known = std::ranges::find(judged_, config, &Candidate::config);
  if (known == judged_.end()) known = judged_.insert(judged_.end(), Candidate{config});
  return is_legal(*known, Rules::must);
}

const Config* BoundDefaults::find(std::size_t rule, Rules rules) {
  const SpaceFile::Default& stated = file_.defaults[rule];
  Default& bound = defaults_[rule];
  if (stated.when) {
    const std::int64_t when = evaluate(bound.when, *stated.when);
    if (when == 0 || when == kUndefined) return nullptr;
  }
  if (!stated.choice) {
    Candidate& only = bound.candidates.front();
    return is_legal(only, rules) ? &only.config : nullptr;
  }
  // kUndefined is below every value.
  const std::int64_t limit = evaluate(bound.at_most, stated.choice->at_most);
  for (std::size_t i = 0; i < bound.candidates.size(); ++i) {
    if (stated.choice->values[i].number > limit) continue;
    if (is_legal(bound.candidates[i], rules)) return &bound.candidates[i].config;
  }
  return nullptr;
}

bool BoundDefaults::is_legal(Candidate& candidate, Rules rules) {
  if (!candidate.compiled) compile(candidate);
  if (candidate.broken && applies(*candidate.broken, rules)) return false;
  Memo& memo = candidate.legal[rules == Rules::must ? 1 : 0];
  if (!is_fresh(memo)) {
    memo.value = judge(candidate, rules) ? 1 : 0;
    memo.at = now_;
  }
  return memo.value != 0;
}

// Quantities of the configuration are computed anew: the slots may hold another one's.
bool BoundDefaults::judge(Candidate& candidate, Rules rules) {
  refresh_lets();
  for (const Step& let : candidate.lets) slots_[let.slot] = let.program.run(slots_.data());
  return std::all_of(candidate.rules.begin(), candidate.rules.end(), [&](const Rule& rule) {
    return !applies(rule.kind, rules) || rule.program.holds(slots_.data());
  });
}

void BoundDefaults::refresh_lets() {
  if (lets_at_ == now_) return;
  lets_at_ = now_;
  for (Step& let : lets_) {
    if (is_fresh(let.memo)) continue;
    slots_[let.slot] = let.program.run(slots_.data());
    let.memo.at = now_;
  }
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
  std::uint64_t depends_on = 0;
  for (const Step& let : candidate.lets) depends_on |= dependencies(let.program);
  for (const Rule& rule : candidate.rules) depends_on |= dependencies(rule.program);
  for (Memo& memo : candidate.legal) memo.depends_on = depends_on;
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

std::int64_t BoundDefaults::evaluate(Condition& condition, const Expression& expression) {
  if (is_fresh(condition.memo)) return condition.memo.value;
  if (!condition.program) {
    condition.program = compile(expression, bindings_);
    condition.memo.depends_on = dependencies(*condition.program);
  }
  refresh_lets();
  condition.memo.value = condition.program->run(slots_.data());
  condition.memo.at = now_;
  return condition.memo.value;
}

}  // namespace moetune
