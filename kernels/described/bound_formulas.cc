#include "kernels/described/bound_formulas.h"

#include <algorithm>

#include "kernels/kernel.h"

namespace moetune {
namespace {

std::int64_t number_of(const Value& value, const Vocabulary& vocabulary) {
  if (!value.is_named()) return value.number;
  // A name that no expression quotes equals none of them.
  return vocabulary.interned(value.name).value_or(-1 - value.number);
}

// "m" of "problem.m"; "" if it is of another group.
std::string_view member_of(std::string_view name, std::string_view group) {
  return name.starts_with(group) ? name.substr(group.size()) : std::string_view();
}

// An integer field of the call: "call.n", or "n" if no dimension has the name.
std::optional<std::size_t> field_position(const Description& description, std::string_view name) {
  const std::string_view qualified = member_of(name, "call.");
  if (qualified.empty() && std::ranges::find(description.schema, name, &Dimension::name) != description.schema.end())
    return std::nullopt;
  const auto& fields = description.call.integers;
  const auto found = std::ranges::find(fields, qualified.empty() ? name : qualified, &CallField::name);
  return found == fields.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - fields.begin()));
}

}  // namespace

std::optional<std::size_t> free_position(const Description& description, std::string_view dimension) {
  const auto& free = description.free_dimensions;
  const auto found = std::find(free.begin(), free.end(), dimension);
  return found == free.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - free.begin()));
}

bool is_present(const DescribedTensor& tensor, const BoundFormulas& formulas) {
  return BoundFormulas::Values(formulas, {1, 1, 1, 1}, {}).holds(tensor.when);  // which reads no extent
}

BoundFormulas::BoundFormulas(const Description& description, const FormulaRange& which, const Config* config,
                             const Assignment& problem, const DeviceLimits& limits)
    : first_(which.begin) {
  const Vocabulary& vocabulary = description.space.vocabulary;
  const Assignment device = expression_environment({description.name, {}}, limits);
  std::vector<Binding> bindings(vocabulary.size());
  const auto bind = [&](Slot slot, const Value* value) {
    if (value != nullptr) bindings[slot] = {true, value->is_named(), number_of(*value, vocabulary)};
  };
  for (Slot slot = 0; slot < vocabulary.size(); ++slot) {
    const Vocabulary::Symbol& symbol = vocabulary[slot];
    if (symbol.kind == Vocabulary::Kind::parameter) {
      if (config != nullptr) bind(slot, config->find(symbol.name));
      continue;
    }
    if (symbol.kind == Vocabulary::Kind::let) continue;
    if (symbol.name == kElementIndex &&
        std::ranges::find(description.schema, kElementIndex, &Dimension::name) == description.schema.end())
      element_ = slot;
    if (const auto field = field_position(description, symbol.name)) {
      inputs_.push_back({slot, true, *field});
      continue;
    }
    if (symbol.name.starts_with("device.")) {
      bind(slot, device.find(symbol.name));
      continue;
    }
    const std::string_view qualified = member_of(symbol.name, "problem.");
    const std::string_view dimension = qualified.empty() ? std::string_view(symbol.name) : qualified;
    if (const auto position = free_position(description, dimension)) {
      inputs_.push_back({slot, false, *position});
    } else {
      bind(slot, problem.find(dimension));
    }
  }
  bind_lets(description, bindings);
  for (Formula formula = which.begin; formula < which.end; ++formula)
    programs_.push_back(description.formulas[formula].compile(vocabulary, bindings));
  keep_what_is_read();
}

void BoundFormulas::bind_lets(const Description& description, std::vector<Binding>& bindings) {
  const SpaceFile& space = description.space;
  for (const SpaceFile::Let& let : space.lets) {
    if (const auto value = let.expression.evaluate(space.vocabulary, bindings)) {
      bindings[let.slot] = {true, false, *value};
    } else {
      lets_.emplace_back(let.slot, let.expression.compile(space.vocabulary, bindings));
    }
  }
}

void BoundFormulas::keep_what_is_read() {
  std::vector<bool> read(kMaxDescribedNames);
  const auto mark = [&](const Program& program) {
    for (const Slot slot : program.loads()) read[slot] = true;
  };
  for (const Program& program : programs_) mark(program);
  for (auto let = lets_.rbegin(); let != lets_.rend(); ++let)
    if (read[let->first]) mark(let->second);
  std::erase_if(lets_, [&](const auto& let) { return !read[let.first]; });
  std::erase_if(inputs_, [&](const Input& input) { return !read[input.slot]; });
}

bool BoundFormulas::reads_extent(std::size_t position) const {
  return std::any_of(inputs_.begin(), inputs_.end(),
                     [&](const Input& input) { return !input.of_call && input.position == position; });
}

BoundFormulas::Values::Values(const BoundFormulas& formulas, const Extents& extents, const Call& call)
    : formulas_(formulas) {
  for (const Input& input : formulas.inputs_)
    slots_[input.slot] = input.of_call ? call.integers[input.position] : extents[input.position];
  for (const auto& [slot, program] : formulas.lets_) slots_[slot] = program.run(slots_.data());
}

void BoundFormulas::Values::set_element(std::int64_t index) {
  if (formulas_.element_) slots_[*formulas_.element_] = index;
}

std::int64_t BoundFormulas::Values::raw(Formula formula) const {
  return formulas_.programs_[formula - formulas_.first_].run(slots_.data());
}

std::int64_t BoundFormulas::Values::within(Formula formula, std::int64_t least, std::int64_t most) {
  const std::int64_t value = raw(formula);
  if (value != kUndefined && value >= least && value <= most) return value;
  sound_ = false;
  return least;
}

bool BoundFormulas::Values::holds(const std::optional<Formula>& condition) {
  if (!condition) return true;
  const std::int64_t value = raw(*condition);
  if (value == kUndefined) sound_ = false;
  return value != 0 && value != kUndefined;
}

}  // namespace moetune
