// An expression of a space file (the language is in search/space.h): parsed once against a vocabulary, then
// compiled for one environment, in which the constants of problem and device are folded away.
//
// Immutable; safe to share between threads. Errors are BadInput: where the expression stands, what is wrong,
// and the column in it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/program.h"
#include "search/vocabulary.h"

namespace moetune {

// The knowledge of a slot when an expression is compiled.
struct Binding {
  bool known = false;
  bool named = false;      // the value is an interned name
  std::int64_t value = 0;  // kUndefined where a let has no value
  // An unknown value that is `factor` times that of another slot; 0: of none. Their quotient is then known.
  std::int64_t factor = 0;
  Slot multiple_of = 0;
  bool operator==(const Binding&) const = default;
};

class Expression {
 public:
  struct Node {
    Op op = Op::constant;
    bool quoted = false;       // a constant that was written 'name'
    std::uint32_t column = 0;  // from 1
    Slot slot = 0;             // for Op::load
    std::int64_t value = 0;    // for Op::constant
    int a = -1, b = -1, c = -1;
  };

  // `where` names the file and key: "spaces/x.json: constraints[2].expr". Adds problem.* and device.* names
  // and quoted names to the vocabulary. Checks the types of everything but problem.* and device.*, which only
  // compile() can know.
  static Expression parse(std::string_view text, std::string where, Vocabulary& vocabulary);

  const std::string& text() const { return text_; }
  const std::string& where() const { return where_; }
  const std::vector<Slot>& slots() const { return slots_; }  // that it names: ascending, each once
  std::uint32_t column_of(Slot slot) const;                  // where it names `slot` first; 1 where it does not

  // `bindings` by slot. Checks types once more, now with the environment's.
  Program compile(const Vocabulary& vocabulary, const std::vector<Binding>& bindings) const;

  // The value, without compiling; nullopt where it needs a slot that is not known. Checks types as compile() does.
  std::optional<std::int64_t> evaluate(const Vocabulary& vocabulary, const std::vector<Binding>& bindings) const;

 private:
  std::string text_;
  std::string where_;
  std::vector<Node> nodes_;  // operands before operators; the last is the root
  std::vector<Slot> slots_;
};

// The sentence for an error in an expression, with its column.
[[noreturn]] void throw_at(std::string_view where, std::string_view text, std::uint32_t column,
                           const std::string& what);

}  // namespace moetune
