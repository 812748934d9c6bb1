// The names that the expressions of one space may use, each with a slot: parameters first, then the
// quantities from "let", then problem.* and device.* names as expressions mention them. Also interns quoted
// names as numbers, so that comparing names is comparing integers.
//
// Filled while a space file is read; immutable and shared between threads afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/parameter.h"

namespace moetune {

using Slot = std::uint32_t;

// The language of the expressions: that of docs/spaces.md, or that of Kernel Tuner's restrictions.
enum class Syntax { own, python };

class Vocabulary {
 public:
  enum class Kind { parameter, let, environment };

  struct Symbol {
    Kind kind;
    std::string name;
    bool named = false;               // a parameter whose values are names
    std::vector<std::string> domain;  // those names
  };

  Slot add_parameter(const Parameter& parameter);
  Slot add_let(std::string_view name);
  Slot add_environment(std::string_view name);  // the slot it already has where it has one

  std::optional<Slot> find(std::string_view name) const;
  const Symbol& operator[](Slot slot) const { return symbols_[slot]; }
  std::size_t size() const { return symbols_.size(); }
  std::vector<std::string> names() const;

  Syntax syntax() const { return syntax_; }
  void set_syntax(Syntax syntax) { syntax_ = syntax; }

  std::int64_t intern(std::string_view name);  // the same number for the same name
  std::optional<std::int64_t> interned(std::string_view name) const;
  const std::vector<std::string>& interned_names() const { return interned_; }

 private:
  Slot add(Symbol symbol);

  std::vector<Symbol> symbols_;
  std::vector<std::string> interned_;
  Syntax syntax_ = Syntax::own;
};

}  // namespace moetune
