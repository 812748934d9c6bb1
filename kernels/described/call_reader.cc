#include "kernels/described/call_reader.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>

#include "base/error.h"
#include "base/suggest.h"

namespace moetune {
namespace {

constexpr std::size_t kMostInProblem = 32;
using Dimensions = std::bitset<kMostInProblem>;

// "bf16 or f16"
std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

class CallReader {
 public:
  CallReader(const Description& description, std::span<const TensorView* const> tensors)
      : description_(description), tensors_(tensors), bindings_(vocabulary().size()) {
    for (std::size_t i = 0; i < schema().size(); ++i)
      for (const std::string& name : {schema()[i].name, "problem." + schema()[i].name})
        if (const auto slot = vocabulary().find(name)) slots_[i].push_back(*slot);
    for (std::size_t i = 0; i < schema().size(); ++i) set(i, std::nullopt);
    for (const SpaceFile::Let& let : description_.space.lets)
      lets_.emplace_back(let.slot, dimensions_of(let.expression));
  }

  void read(std::string_view facts, Assignment& problem, ShownCall& call) {
    read_facts(facts);
    for (std::size_t slot = 0; slot < slot_count(); ++slot)
      if (given(slot) != nullptr) read_type(slot);
    while (read_size() || choose_name()) {
    }
    take_defaults();
    show(call);
    for (std::size_t i = 0; i < schema().size(); ++i) problem.append(schema()[i].name, *values_[i]);
  }

 private:
  [[noreturn]] void refuse(const std::string& sentence) const { throw BadInput(description_.name + ": " + sentence); }

  const Vocabulary& vocabulary() const { return description_.space.vocabulary; }
  const ProblemSchema& schema() const { return description_.schema; }
  std::size_t slot_count() const { return description_.tensors.size(); }
  const TensorView* given(std::size_t slot) const { return slot < tensors_.size() ? tensors_[slot] : nullptr; }
  bool is_free(std::size_t dimension) const {
    return std::ranges::count(description_.free_dimensions, schema()[dimension].name) > 0;
  }
  std::size_t dimension_of(std::string_view name) const {
    return static_cast<std::size_t>(std::ranges::find(schema(), name, &Dimension::name) - schema().begin());
  }
  std::string quoted(std::size_t slot) const { return "'" + description_.tensors[slot].name + "'"; }

  // ---- Values so far

  void set(std::size_t dimension, std::optional<Value> value) {
    values_[dimension] = std::move(value);
    const std::optional<Value>& now = values_[dimension];
    for (const Slot slot : slots_[dimension]) {
      bindings_[slot] = {.named = !schema()[dimension].names.empty()};
      if (!now) continue;
      // A name that no expression quotes equals none of them.
      const auto number = now->is_named() ? vocabulary().interned(now->name).value_or(-1 - now->number) : now->number;
      bindings_[slot] = {true, now->is_named(), number};
    }
    for (std::size_t i = 0; i < lets_.size(); ++i) {
      if (!lets_[i].second[dimension]) continue;
      const auto result = description_.space.lets[i].expression.evaluate(vocabulary(), bindings_);
      bindings_[lets_[i].first] = result ? Binding{true, false, *result} : Binding{};
    }
  }

  // The dimensions that an expression reads, by its lets, too.
  Dimensions dimensions_of(const Expression& expression) const {
    Dimensions read;
    for (const Slot slot : expression.slots()) {
      for (const auto& [let, dimensions] : lets_)
        if (let == slot) read |= dimensions;
      for (std::size_t i = 0; i < schema().size(); ++i)
        if (std::ranges::count(slots_[i], slot) > 0) read.set(i);
    }
    return read;
  }
  Dimensions unknown_in(Formula formula) const {
    Dimensions unknown = dimensions_of(description_.formulas[formula]);
    for (std::size_t i = 0; i < schema().size(); ++i)
      if (values_[i]) unknown.reset(i);
    return unknown;
  }

  // nullopt if it reads what is not known.
  std::optional<std::int64_t> value_of(Formula formula) const {
    return description_.formulas[formula].evaluate(vocabulary(), bindings_);
  }
  std::optional<bool> holds(const std::optional<Formula>& condition) const {
    if (!condition) return true;
    const auto value = value_of(*condition);
    return value ? std::optional(*value != 0 && *value != kUndefined) : std::nullopt;
  }

  // The dimension that a size is by itself.
  std::optional<std::size_t> alone(Formula size) const {
    std::string_view text = description_.formulas[size].text();
    if (text.starts_with("problem.")) text.remove_prefix(8);
    const std::size_t dimension = dimension_of(text);
    return dimension < schema().size() ? std::optional(dimension) : std::nullopt;
  }

  // ---- Facts

  void read_facts(std::string_view facts) {
    if (facts.empty()) return;
    for (const auto& [name, text] : split_assignment(facts, "the facts")) {
      const std::size_t at = dimension_of(name);
      if (at == schema().size()) {
        std::vector<std::string> names;
        for (const Dimension& dimension : schema()) names.push_back(dimension.name);
        refuse(unknown_name("dimension", name, names));
      }
      set(at, stated(schema()[at], text));
      stated_.set(at);
    }
  }

  Value stated(const Dimension& dimension, const std::string& text) const {
    if (!dimension.names.empty()) {
      const auto found = std::ranges::find(dimension.names, text);
      if (found != dimension.names.end()) return Value::named(text, found - dimension.names.begin());
      refuse(dimension.name + " is '" + text + "'; it must be " + alternatives(dimension.names));
    }
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < dimension.minimum ||
        number > dimension.maximum)
      refuse(dimension.name + " is " + text + "; it must be from " + std::to_string(dimension.minimum) + " to " +
             std::to_string(dimension.maximum));
    return Value::integer(number);
  }

  // ---- Tensors

  void read_type(std::size_t slot) {
    const DescribedTensor& tensor = description_.tensors[slot];
    const TensorView& view = *given(slot);
    if (view.shape.size() != tensor.shape.size())
      refuse(quoted(slot) + " has " + std::to_string(view.shape.size()) + " dimensions; it must be " +
             shape_of(tensor));
    const std::string type(dtype_name(view.dtype));
    if (tensor.type.dimension.empty()) return;
    const std::size_t dimension = dimension_of(tensor.type.dimension);
    const std::vector<std::string>& names = schema()[dimension].names;
    const auto found = std::ranges::find(names, type);
    if (found == names.end()) refuse(quoted(slot) + " is " + type + "; it must be " + alternatives(names));
    if (!values_[dimension]) set(dimension, Value::named(type, found - names.begin()));
  }

  // "[tokens, 2 * intermediate]"
  std::string shape_of(const DescribedTensor& tensor) const {
    std::string text;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d)
      text += (d == 0 ? "" : ", ") + (tensor.any.contains(d) ? "any" : description_.formulas[tensor.shape[d]].text());
    return "[" + text + "]";
  }

  // Finds one dimension from a size: of what is read first, and first those that are one by themselves.
  bool read_size() {
    for (const auto& [written, by_itself] : {std::pair(false, true), {false, false}, {true, true}, {true, false}}) {
      for (std::size_t slot = 0; slot < slot_count(); ++slot) {
        const DescribedTensor& tensor = description_.tensors[slot];
        if (given(slot) == nullptr || (tensor.role == Role::output) != written) continue;
        for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
          const Dimensions unknown = tensor.any.contains(d) ? Dimensions() : unknown_in(tensor.shape[d]);
          if (unknown.count() != 1 || alone(tensor.shape[d]).has_value() != by_itself) continue;
          const auto dimension = static_cast<std::size_t>(__builtin_ctzll(unknown.to_ullong()));
          if (!schema()[dimension].names.empty()) continue;
          solve(slot, d, dimension);
          return true;
        }
      }
    }
    return false;
  }

  // The least value with which the size is the tensor's; sizes rise or fall with it.
  void solve(std::size_t slot, std::size_t d, std::size_t dimension) {
    const Formula formula = description_.tensors[slot].shape[d];
    const std::int64_t size = given(slot)->shape[d];
    const Dimension& wanted = schema()[dimension];
    std::int64_t low = is_free(dimension) ? 0 : wanted.minimum, high = wanted.maximum;
    const auto at = [&](std::int64_t value) {
      set(dimension, Value::integer(value));
      return value_of(formula).value_or(kUndefined);
    };
    if (alone(formula)) {
      low = high = size;
    } else {
      const bool rises = at(high) >= at(low);
      while (low < high) {
        const std::int64_t middle = low + (high - low) / 2, there = at(middle);
        if (rises ? there >= size : there <= size)
          high = middle;
        else
          low = middle + 1;
      }
    }
    if (at(low) != size)
      refuse(quoted(slot) + " is " + shape_text(*given(slot)) + "; it must be " + shape_of(description_.tensors[slot]) +
             " of some " + wanted.name);
    const bool is_empty = low == 0 && is_free(dimension);
    if (!is_empty && (low < wanted.minimum || low > wanted.maximum))
      refuse(wanted.name + " is " + std::to_string(low) + "; it must be from " + std::to_string(wanted.minimum) +
             " to " + std::to_string(wanted.maximum));
    sized_.set(dimension);
  }

  // ---- The rest

  // Whether what is known so far agrees with the rules and with the tensors that are given. A stricter look wants their
  // sizes to be right, the strictest that inputs which the family has are given: others may be made for the caller.
  enum Look { presence, sizes, inputs };
  bool agrees(Look look) const {
    for (const DescribedRule& rule : description_.rules)
      if (!holds(rule.rule).value_or(true)) return false;
    for (std::size_t slot = 0; slot < slot_count(); ++slot) {
      const DescribedTensor& tensor = description_.tensors[slot];
      const bool present = holds(tensor.when).value_or(given(slot) != nullptr);
      if (given(slot) == nullptr) {
        if (present && tensor.when && look == inputs && tensor.role == Role::input) return false;
        continue;
      }
      if (!present) return false;
      for (std::size_t d = 0; look != presence && d < tensor.shape.size(); ++d)
        if (!tensor.any.contains(d) &&
            value_of(tensor.shape[d]).value_or(given(slot)->shape[d]) != given(slot)->shape[d])
          return false;
    }
    return true;
  }

  // Gives one named dimension its usual value, or the first that agrees with the rest.
  bool choose_name() {
    for (const DescribedRule& rule : description_.rules)
      if (!holds(rule.rule).value_or(true)) refuse(rule.why);
    for (std::size_t i = 0; i < schema().size(); ++i) {
      const Dimension& dimension = schema()[i];
      if (values_[i] || dimension.names.empty()) continue;
      for (const Look look : {inputs, sizes, presence}) {
        set(i, dimension.default_value);
        if (agrees(look)) return true;
        for (std::size_t at = 0; at < dimension.names.size(); ++at) {
          set(i, Value::named(dimension.names[at], static_cast<std::int64_t>(at)));
          if (agrees(look)) return true;
        }
      }
      set(i, dimension.default_value);
      return true;
    }
    return false;
  }

  // A size that is read must not be a guess.
  void take_defaults() {
    for (std::size_t slot = 0; slot < slot_count(); ++slot) {
      const DescribedTensor& tensor = description_.tensors[slot];
      if (given(slot) == nullptr && tensor.when) continue;
      for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
        const Dimensions unknown = tensor.any.contains(d) ? Dimensions() : unknown_in(tensor.shape[d]);
        for (std::size_t i = 0; i < schema().size(); ++i)
          if (unknown[i])
            refuse("no tensor shows " + schema()[i].name + ", which the size of " + quoted(slot) +
                   " depends on; state it as a fact, " + schema()[i].name + "=...");
      }
    }
    for (std::size_t i = 0; i < schema().size(); ++i) {
      if (values_[i]) continue;
      if (is_free(i))
        refuse("no tensor's shape says '" + schema()[i].name + "'; state it as a fact, " + schema()[i].name + "=...");
      set(i, schema()[i].default_value);
    }
  }

  // ---- The outcome

  static void add(std::string& text, const std::string& name, const Value& value) {
    text += (text.empty() ? "" : ",") + name + "=" + value.text();
  }

  void show(ShownCall& call) const {
    for (std::size_t slot = 0; slot < slot_count(); ++slot) call.tensors[slot] = shown_tensor(slot);
    for (const std::string& name : description_.free_dimensions) {
      const std::size_t i = dimension_of(name);
      call.extents.push_back(values_[i]->number);
      add(call.problem, name, *values_[i]);
      if (!is_bare(i)) add(call.options, name, *values_[i]);
    }
    for (std::size_t i = 0; i < schema().size(); ++i)
      if (!is_free(i) &&
          (sized_[i] || (stated_[i] && schema()[i].names.empty()) || !(*values_[i] == schema()[i].default_value)))
        add(call.specialization, schema()[i].name, *values_[i]);
    if (!call.specialization.empty()) call.problem += (call.problem.empty() ? "" : ",") + call.specialization;
  }

  // Whether FamilyInterface::bind finds it by itself.
  bool is_bare(std::size_t dimension) const {
    for (std::size_t slot = 0; slot < slot_count(); ++slot)
      for (std::size_t d = 0; given(slot) != nullptr && d < given(slot)->shape.size(); ++d)
        if (!description_.tensors[slot].any.contains(d) && alone(description_.tensors[slot].shape[d]) == dimension)
          return true;
    return false;
  }

  ShownTensor shown_tensor(std::size_t slot) const {
    const DescribedTensor& tensor = description_.tensors[slot];
    ShownTensor found{.name = Name(tensor.name), .role = tensor.role, .present = holds(tensor.when).value_or(true)};
    if (given(slot) != nullptr && !found.present) refuse("tensor " + quoted(slot) + " is none of this call's");
    if (!found.present) return found;
    if (given(slot) == nullptr && tensor.role == Role::input) refuse("tensor " + quoted(slot) + " is missing");
    Assignment types;
    if (const std::string& of = tensor.type.dimension; !of.empty()) types.set(of, *values_[dimension_of(of)]);
    found.dtype = type_of(tensor.type, types);
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      const std::int64_t size = value_of(tensor.shape[d]).value_or(kUndefined);
      const auto dimension = alone(tensor.shape[d]);
      const bool is_any = tensor.any.contains(d);
      if (!is_any && (size < 0 || size > kMostTensorElements))
        refuse("a size of " + quoted(slot) + ", " + description_.formulas[tensor.shape[d]].text() +
               ", would not be from 0 to 2^40");
      found.shape.push_back(is_any && given(slot) != nullptr ? given(slot)->shape[d] : size);
      if (__builtin_mul_overflow(elements, found.shape.back(), &elements) || elements > kMostTensorElements)
        refuse("tensor " + quoted(slot) + " would have more than 2^40 elements");
      found.dimensions.push_back(is_any      ? ShownTensor::kAnySize
                                 : dimension ? number_of(*dimension)
                                             : ShownTensor::kNoDimension);
    }
    if (given(slot) != nullptr && !(found.shape == given(slot)->shape))
      refuse("tensor " + quoted(slot) + " is " + shape_text(*given(slot)) + "; it must be " +
             shape_text({found.dtype, found.shape, {}}));
    return found;
  }

  int number_of(std::size_t dimension) const {
    const auto& free = description_.free_dimensions;
    const auto place = std::ranges::find(free, schema()[dimension].name) - free.begin();
    return static_cast<int>(is_free(dimension) ? static_cast<std::size_t>(place) : Extents::capacity() + dimension);
  }

  const Description& description_;
  const std::span<const TensorView* const> tensors_;
  std::vector<Binding> bindings_;
  std::array<std::vector<Slot>, kMostInProblem> slots_;      // by dimension
  std::vector<std::pair<Slot, Dimensions>> lets_;            // of each, what it reads
  std::array<std::optional<Value>, kMostInProblem> values_;  // by dimension
  Dimensions stated_, sized_;
};

}  // namespace

void read_call(const Description& description, std::span<const TensorView* const> tensors, std::string_view facts,
               Assignment& problem, ShownCall& call) {
  CallReader(description, tensors).read(facts, problem, call);
}

}  // namespace moetune
