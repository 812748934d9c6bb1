#include "search/bound_defaults.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/lists.h"

namespace moetune {

BoundDefaults::BoundDefaults(const SpaceFile& file, Assignment environment, std::vector<std::string> varying,
                             const std::optional<Multiple>& multiple)
    : file_(file),
      environment_(std::move(environment)),
      names_(file),
      known_(environment_bindings(file, environment_, names_)),
      bindings_(known_),
      slots_(known_.size()) {
  if (known_.size() > kMostSlots)
    throw BadInput(file.file + ": a space has " + std::to_string(kMostSlots) + " names at most");
  for (Slot slot = 0; slot < known_.size(); ++slot) slots_[slot] = known_[slot].value;
  const auto vary = [&](const std::string& name) {
    const std::optional<Slot> slot = file.vocabulary.find(name);
    if (slot) bindings_[*slot].known = false;
    return slot;
  };
  for (const std::string& name : varying) varying_.push_back(vary(name));
  if (multiple) {
    multiple_ = vary(multiple->name);
    multiple_of_ = static_cast<std::size_t>(std::ranges::find(varying, multiple->of) - varying.begin());
    factor_ = multiple->factor;
    if (multiple_ && varying_.at(multiple_of_)) {
      bindings_[*multiple_].factor = factor_;
      bindings_[*multiple_].multiple_of = *varying_[multiple_of_];
    }
  }
  bind_lets();
  std::map<std::string, std::uint32_t> known;
  for (const SpaceFile::Default& rule : file.defaults) {
    add(rule, known);
    const bool is_last = !defaults_.empty() && !defaults_.back().when && !defaults_.back().chosen &&
                         defaults_.back().legality.is_certain();
    if (is_last) break;
  }
}

void BoundDefaults::bind_lets() {
  for (const SpaceFile::Let& let : file_.lets) {
    if (let.of_parameters) continue;
    const Program& program = compile(let.expression, bindings_);
    if (program.is_constant()) {
      bindings_[let.slot] = {true, false, program.constant_value()};
      slots_[let.slot] = program.constant_value();
    } else {
      lets_.push_back({let.slot, program});
    }
  }
}

void BoundDefaults::add(const SpaceFile::Default& rule, std::map<std::string, std::uint32_t>& known) {
  Default made;
  if (rule.when) {
    const Program& when = compile(*rule.when, bindings_);
    if (!when.is_constant()) {
      made.when = when;
    } else if (!when.holds(nullptr)) {
      return;
    }
  }
  const std::optional<std::size_t> chosen = rule.choice ? std::optional(rule.choice->parameter) : std::nullopt;
  made.legality = legality_of(rule.config, chosen);
  if (made.legality.broken == ConstraintKind::must) return;
  if (!chosen) {
    made.candidates.push_back({add_config(rule.config, known), 0, {}});
  } else {
    made.chosen = static_cast<Slot>(*chosen);
    made.at_most = compile(rule.choice->at_most, bindings_);
    for (const Value& value : rule.choice->values) {
      Candidate candidate{.value = value.number};
      add_gates(candidate.gates, *chosen, value, bindings_);
      if (candidate.gates.broken) continue;
      Config config = rule.config;
      config.set(file_.parameters[*chosen].name, value);
      candidate.config = add_config(config, known);
      made.candidates.push_back(std::move(candidate));
    }
  }
  defaults_.push_back(std::move(made));
}

std::uint32_t BoundDefaults::add_config(const Config& config, std::map<std::string, std::uint32_t>& known) {
  const auto [place, is_new] = known.try_emplace(config.text(), static_cast<std::uint32_t>(configs_.size()));
  if (is_new) configs_.push_back(config);
  return place->second;
}

BoundDefaults::Legality BoundDefaults::legality_of(const Config& config, std::optional<std::size_t> chosen) {
  Legality legality;
  std::vector<Binding> bindings = bindings_;
  for (std::size_t p = 0; p < file_.parameters.size(); ++p) {
    const Value& value = *config.find(file_.parameters[p].name);
    bindings[p] = {p != chosen, value.is_named(),
                   value.is_named() ? *file_.vocabulary.interned(value.name) : value.number};
    if (p != chosen) add_gates(legality, p, value, bindings_);
  }
  for (const SpaceFile::Let& let : file_.lets) {
    if (!let.of_parameters) continue;
    const Program& program = compile(let.expression, bindings);
    if (program.is_constant()) {
      bindings[let.slot] = {true, false, program.constant_value()};
    } else {
      legality.lets.push_back({let.slot, program});
    }
  }
  for (const SpaceFile::Constraint& constraint : file_.constraints)
    require(legality, constraint.kind, constraint.expression, bindings);
  keep_needed_lets(legality);
  return legality;
}

void BoundDefaults::add_gates(Legality& legality, std::size_t parameter, const Value& value,
                              const std::vector<Binding>& bindings) {
  for (const SpaceFile::Gate& gate : file_.gates) {
    if (gate.parameter == parameter && file_.parameters[parameter].values[gate.position] == value)
      require(legality, ConstraintKind::must, gate.condition, bindings);
  }
}

void BoundDefaults::require(Legality& legality, ConstraintKind kind, const Expression& expression,
                            const std::vector<Binding>& bindings) {
  const Program& program = compile(expression, bindings);
  if (!program.is_constant()) return legality.rules.push_back({kind, program});
  if (!program.holds(nullptr) && legality.broken != ConstraintKind::must) legality.broken = kind;
}

void BoundDefaults::keep_needed_lets(Legality& legality) const {
  std::vector<bool> needed(slots_.size());
  const auto mark = [&](const Program& program) {
    for (const Slot slot : program.loads()) needed[slot] = true;
  };
  for (const Rule& rule : legality.rules) mark(rule.program);
  for (std::size_t i = legality.lets.size(); i-- > 0;) {  // each comes after the lets that it uses
    if (needed[legality.lets[i].slot]) mark(legality.lets[i].program);
  }
  std::erase_if(legality.lets, [&](const Step& let) { return !needed[let.slot]; });
}

const Program& BoundDefaults::compile(const Expression& expression, const std::vector<Binding>& bindings) {
  Compiled& last = compiled_[&expression];
  const auto binding_of = [&](Slot slot) -> const Binding& { return bindings[slot]; };
  if (last.program && std::ranges::equal(last.with, expression.slots(), {}, {}, binding_of)) return *last.program;
  require_known(expression, file_, environment_, known_);
  last.program = expression.compile(file_.vocabulary, bindings);
  last.with.clear();
  for (const Slot slot : expression.slots()) last.with.push_back(bindings[slot]);
  return *last.program;
}

// Calls visit(slot, place among the values, factor).
template <typename Visit>
void BoundDefaults::set(Values values, const Visit& visit) const {
  for (std::size_t i = 0; i < varying_.size() && i < values.size(); ++i) {
    if (varying_[i]) visit(*varying_[i], i, 1);
  }
  if (multiple_) visit(*multiple_, multiple_of_, factor_);
}

void BoundDefaults::fill(Values values, std::int64_t* slots) const {
  std::ranges::copy(slots_, slots);
  set(values, [&](Slot slot, std::size_t i, std::int64_t factor) { slots[slot] = factor * values[i]; });
  for (const Step& let : lets_) slots[let.slot] = let.program.run(slots);
}

// Quantities of the configuration are computed anew: the slots may hold another one's.
bool BoundDefaults::holds(const Legality& legality, Rules rules, std::int64_t* slots) {
  if (legality.broken && applies(*legality.broken, rules)) return false;
  for (const Step& let : legality.lets) slots[let.slot] = let.program.run(slots);
  return std::ranges::all_of(legality.rules,
                             [&](const Rule& rule) { return !applies(rule.kind, rules) || rule.program.holds(slots); });
}

std::optional<std::uint32_t> BoundDefaults::find(Values values) const {
  std::array<std::int64_t, kMostSlots> slots;
  fill(values, slots.data());
  for (const Rules rules : {Rules::all, Rules::must}) {
    for (const Default& rule : defaults_) {
      if (rule.when && !rule.when->holds(slots.data())) continue;
      // kUndefined is below every value.
      const std::int64_t most = rule.at_most ? rule.at_most->run(slots.data()) : 0;
      for (const Candidate& candidate : rule.candidates) {
        if (candidate.value > most) continue;
        if (rule.chosen) slots[*rule.chosen] = candidate.value;
        if (holds(rule.legality, rules, slots.data()) && holds(candidate.gates, rules, slots.data()))
          return candidate.config;
      }
    }
  }
  return std::nullopt;
}

BoundDefaults::Possible BoundDefaults::find_within(Values low, Values high) const {
  std::vector<ValueRange> slots = gathered(slots_, ValueRange::of);
  set(low, [&](Slot slot, std::size_t i, std::int64_t factor) { slots[slot] = {factor * low[i], factor * high[i]}; });
  for (const Step& let : lets_) slots[let.slot] = run_within(let.program, slots.data());
  bool is_open = false;
  // Notes in is_open that it holds for some of the values alone.
  const auto can_hold = [&](const Legality& legality, Rules rules) {
    if (legality.broken && applies(*legality.broken, rules)) return false;
    for (const Step& let : legality.lets) slots[let.slot] = run_within(let.program, slots.data());
    for (const Rule& rule : legality.rules) {
      if (!applies(rule.kind, rules)) continue;
      const ValueRange value = run_within(rule.program, slots.data());
      if (value.never_holds()) return false;
      is_open = is_open || !value.always_holds();
    }
    return true;
  };
  Possible possible;
  for (const Rules rules : {Rules::all, Rules::must}) {
    for (const Default& rule : defaults_) {
      const ValueRange when = rule.when ? run_within(*rule.when, slots.data()) : ValueRange::of(1);
      if (when.never_holds()) continue;
      const ValueRange most = rule.at_most ? run_within(*rule.at_most, slots.data()) : ValueRange::of(0);
      for (const Candidate& candidate : rule.candidates) {
        if (most.is_empty() || candidate.value > most.high) continue;
        is_open = !when.always_holds() || candidate.value > most.low || most.undefined;
        if (rule.chosen) slots[*rule.chosen] = ValueRange::of(candidate.value);
        if (!can_hold(rule.legality, rules) || !can_hold(candidate.gates, rules)) continue;
        if (std::ranges::find(possible.configs, candidate.config) == possible.configs.end())
          possible.configs.push_back(candidate.config);
        if (!is_open) return possible;
      }
    }
  }
  possible.none = true;
  return possible;
}

bool BoundDefaults::can_run(const Config& config, Values values) {
  const auto [known, is_new] = judged_.try_emplace(config.text());
  if (is_new) known->second = legality_of(config, std::nullopt);
  std::array<std::int64_t, kMostSlots> slots;
  fill(values, slots.data());
  return holds(known->second, Rules::must, slots.data());
}

}  // namespace moetune
