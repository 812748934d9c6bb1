#include "search/expression.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "search/expression_parser.h"

namespace moetune {
namespace {

std::vector<Slot> slots_of(const std::vector<Expression::Node>& nodes) {
  std::vector<Slot> slots;
  for (const Expression::Node& node : nodes) {
    if (node.op == Op::load) slots.push_back(node.slot);
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

using Node = Expression::Node;

enum class Type { integer, name, unknown };

bool is_comparison_of_names(Op op) { return op == Op::equal || op == Op::not_equal; }

// Names may stand on the two sides of == and != and nowhere else.
class TypeCheck {
 public:
  TypeCheck(const Expression& expression, const std::vector<Node>& nodes, const Vocabulary& vocabulary,
            const std::vector<Binding>* bindings)
      : expression_(expression), nodes_(nodes), vocabulary_(vocabulary), bindings_(bindings) {}

  void run() const {
    for (const Node& node : nodes_) {
      if (is_comparison_of_names(node.op)) {
        check_comparison(node);
      } else {
        for (const int operand : {node.a, node.b, node.c}) {
          if (operand >= 0) require_integer(nodes_[operand]);
        }
      }
    }
    require_integer(nodes_.back());
  }

 private:
  Type type(const Node& node) const {
    if (node.op == Op::constant) return node.quoted ? Type::name : Type::integer;
    if (node.op != Op::load) return Type::integer;
    const Vocabulary::Symbol& symbol = vocabulary_[node.slot];
    if (symbol.kind != Vocabulary::Kind::environment) return symbol.named ? Type::name : Type::integer;
    if (bindings_ == nullptr) return Type::unknown;
    return (*bindings_)[node.slot].named ? Type::name : Type::integer;
  }

  std::string words(const Node& node) const {
    if (node.op == Op::load) return "'" + vocabulary_[node.slot].name + "'";
    if (node.quoted) return "'" + vocabulary_.interned_names()[node.value] + "'";
    return "the other side";
  }

  [[noreturn]] void fail(const Node& node, const std::string& what) const {
    throw_at(expression_.where(), expression_.text(), node.column, what);
  }

  void require_integer(const Node& node) const {
    if (type(node) == Type::name) fail(node, words(node) + " is a name: names compare with == and != only");
  }

  void check_comparison(const Node& node) const {
    const Node& left = nodes_[node.a];
    const Node& right = nodes_[node.b];
    const Type left_type = type(left);
    const Type right_type = type(right);
    if (left_type != Type::unknown && right_type != Type::unknown && left_type != right_type) {
      const bool left_is_name = left_type == Type::name;
      fail(node, words(left_is_name ? left : right) + " is a name and " + words(left_is_name ? right : left) +
                     " is a number");
    }
    check_in_domain(left, right);
    check_in_domain(right, left);
  }

  void check_in_domain(const Node& variable, const Node& quoted) const {
    if (variable.op != Op::load || !quoted.quoted) return;
    const Vocabulary::Symbol& symbol = vocabulary_[variable.slot];
    if (symbol.kind != Vocabulary::Kind::parameter) return;
    const std::string& name = vocabulary_.interned_names()[quoted.value];
    if (std::find(symbol.domain.begin(), symbol.domain.end(), name) == symbol.domain.end()) {
      fail(quoted, unknown_name("value of " + symbol.name, name, symbol.domain));
    }
  }

  const Expression& expression_;
  const std::vector<Node>& nodes_;
  const Vocabulary& vocabulary_;
  const std::vector<Binding>* bindings_;
};

struct Folded {
  bool known = false;
  std::int64_t value = 0;
};

// Where one name is divided by another that it is a multiple of.
Folded fold_quotient(const Node& dividend, const Node& divisor, const std::vector<Binding>& bindings) {
  if (dividend.op != Op::load || divisor.op != Op::load) return {};
  const Binding& multiple = bindings[dividend.slot];
  return multiple.factor > 0 && multiple.multiple_of == divisor.slot ? Folded{true, multiple.factor} : Folded{};
}

Folded fold(const std::vector<Node>& nodes, const Node& node, const std::vector<Folded>& folded,
            const std::vector<Binding>& bindings) {
  if (node.op == Op::constant) return {true, node.value};
  if (node.op == Op::load) return {bindings[node.slot].known, bindings[node.slot].value};
  const Folded& a = folded[node.a];
  if (a.known && a.value == kUndefined) return a;
  if (node.op == Op::choose) return a.known ? folded[a.value != 0 ? node.b : node.c] : Folded{};
  if (node.op == Op::logical_and && a.known && a.value == 0) return {true, 0};
  if (node.op == Op::logical_or && a.known && a.value != 0) return {true, 1};
  if (node.b < 0) return a.known ? Folded{true, apply(node.op, a.value, 0)} : Folded{};
  const Folded& b = folded[node.b];
  if ((node.op == Op::divide || node.op == Op::floor_div) && !a.known && !b.known)
    return fold_quotient(nodes[node.a], nodes[node.b], bindings);
  if (!a.known || !b.known) return {};
  if (b.value == kUndefined) return b;
  if (node.op == Op::logical_and || node.op == Op::logical_or) return {true, b.value != 0};
  return {true, apply(node.op, a.value, b.value)};
}

// By node: its value, where the bindings decide it.
std::vector<Folded> fold_all(const std::vector<Node>& nodes, const std::vector<Binding>& bindings) {
  std::vector<Folded> folded;
  folded.reserve(nodes.size());
  for (const Node& node : nodes) folded.push_back(fold(nodes, node, folded, bindings));
  return folded;
}

// Emits postfix code; a known value becomes a constant.
class Emitter {
 public:
  Emitter(const std::vector<Node>& nodes, const std::vector<Binding>& bindings)
      : nodes_(nodes), folded_(fold_all(nodes, bindings)) {}

  Program finish() {
    emit(static_cast<int>(nodes_.size()) - 1);
    return Program(std::move(code_));
  }

  std::size_t deepest() const { return deepest_; }

 private:
  void push(Program::Instruction instruction, int stack_change) {
    code_.push_back(instruction);
    depth_ += stack_change;
    deepest_ = std::max(deepest_, depth_);
  }

  void emit(int index) {
    const Node& node = nodes_[index];
    if (folded_[index].known) return push({Op::constant, 0, folded_[index].value}, 1);
    switch (node.op) {
      case Op::load:
        return push({Op::load, node.slot, 0}, 1);
      case Op::choose:
        return emit_choose(node);
      case Op::logical_and:
      case Op::logical_or:
        return emit_lazy(node);
      default:
        emit(node.a);
        if (node.b >= 0) emit(node.b);
        return push({node.op, 0, 0}, node.b >= 0 ? -1 : 0);
    }
  }

  void emit_choose(const Node& node) {
    if (folded_[node.a].known) return emit(folded_[node.a].value != 0 ? node.b : node.c);
    emit(node.a);
    const std::size_t to_else = code_.size();
    push({Op::jump_if_zero, 0, 0}, -1);
    emit(node.b);
    const std::size_t to_end = code_.size();
    push({Op::jump, 0, 0}, -1);
    code_[to_else].target = static_cast<std::uint32_t>(code_.size());
    emit(node.c);
    code_[to_end].target = static_cast<std::uint32_t>(code_.size());
  }

  void emit_lazy(const Node& node) {
    if (folded_[node.a].known) {  // true for &&, false for ||: else the whole would be known
      emit(node.b);
      return push({Op::to_bool, 0, 0}, 0);
    }
    emit(node.a);
    const std::size_t skip = code_.size();
    push({node.op == Op::logical_and ? Op::and_then : Op::or_else, 0, 0}, -1);
    emit(node.b);
    push({Op::to_bool, 0, 0}, 0);
    code_[skip].target = static_cast<std::uint32_t>(code_.size());
  }

  const std::vector<Node>& nodes_;
  std::vector<Folded> folded_;
  std::vector<Program::Instruction> code_;
  std::size_t depth_ = 0;
  std::size_t deepest_ = 0;
};

}  // namespace

void throw_at(std::string_view where, std::string_view text, std::uint32_t column, const std::string& what) {
  constexpr std::size_t kMostShown = 200;
  const std::size_t begin = text.size() <= kMostShown ? 0 : std::min<std::size_t>(column - 1, text.size() - kMostShown);
  const std::string shown = (begin > 0 ? "…" : "") + std::string(text.substr(begin, kMostShown)) +
                            (begin + kMostShown < text.size() ? "…" : "");
  throw BadInput(std::string(where) + ": " + what + " (column " + std::to_string(column) + " of \"" + shown + "\")");
}

Expression Expression::parse(std::string_view text, std::string where, Vocabulary& vocabulary) {
  Expression expression;
  expression.text_ = text;
  expression.where_ = std::move(where);
  expression.nodes_ = parse_expression(text, expression.where_, vocabulary);
  expression.slots_ = slots_of(expression.nodes_);
  TypeCheck(expression, expression.nodes_, vocabulary, nullptr).run();
  return expression;
}

std::uint32_t Expression::column_of(Slot slot) const {
  const auto it =
      std::ranges::find_if(nodes_, [&](const Node& node) { return node.op == Op::load && node.slot == slot; });
  return it != nodes_.end() ? it->column : 1;
}

std::optional<std::int64_t> Expression::evaluate(const Vocabulary& vocabulary,
                                                 const std::vector<Binding>& bindings) const {
  TypeCheck(*this, nodes_, vocabulary, &bindings).run();
  const Folded root = fold_all(nodes_, bindings).back();
  return root.known ? std::optional(root.value) : std::nullopt;
}

Program Expression::compile(const Vocabulary& vocabulary, const std::vector<Binding>& bindings) const {
  TypeCheck(*this, nodes_, vocabulary, &bindings).run();
  Emitter emitter(nodes_, bindings);
  Program program = emitter.finish();
  if (emitter.deepest() > kMaxStack) throw_at(where_, text_, 1, "the expression needs too much stack");
  return program;
}

}  // namespace moetune
