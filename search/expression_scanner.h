// The beginnings that the parsers of both syntaxes share: a place in the text, tokens, nodes and names. Not for others.
#pragma once

#include <cctype>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/suggest.h"
#include "search/expression.h"

namespace moetune {

inline constexpr std::size_t kMaxExpression = 4096;  // characters
inline constexpr int kMaxNesting = 64;

class ExpressionScanner {
 protected:
  using Node = Expression::Node;

  ExpressionScanner(std::string_view text, std::string_view where, Vocabulary& vocabulary)
      : text_(text), where_(where), vocabulary_(vocabulary) {}

  static bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
  static bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  static bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

  [[noreturn]] void fail(std::size_t position, const std::string& what) const {
    throw_at(where_, text_, static_cast<std::uint32_t>(position + 1), what);
  }

  void begin() {
    if (text_.size() > kMaxExpression) fail(0, "the expression is longer than 4096 characters");
    skip_blanks();
    if (at_ == text_.size()) fail(at_, "the expression is empty");
  }

  void expect_end() const {
    if (at_ == text_.size()) return;
    if (text_[at_] == '=') fail(at_, "'=' assigns nothing here; compare with '=='");
    fail(at_, "unexpected '" + std::string(1, text_[at_]) + "'");
  }

  void deeper(std::size_t position) {
    if (++nesting_ > kMaxNesting) fail(position, "the expression is nested more than 64 deep");
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  bool accept(std::string_view symbol) {
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    skip_blanks();
    return true;
  }

  void expect(std::string_view symbol) {
    if (accept(symbol)) return;
    const std::string found = at_ < text_.size() ? "'" + std::string(1, text_[at_]) + "'" : "the end";
    fail(at_, "expected '" + std::string(symbol) + "', found " + found);
  }

  int add(Node node) {
    nodes_.push_back(node);
    return static_cast<int>(nodes_.size()) - 1;
  }

  int add(Op op, std::size_t position, int a, int b = -1, int c = -1) {
    Node node;
    node.op = op;
    node.column = static_cast<std::uint32_t>(position + 1);
    node.a = a;
    node.b = b;
    node.c = c;
    return add(node);
  }

  int add_constant(std::size_t position, std::int64_t value) {
    Node node;
    node.column = static_cast<std::uint32_t>(position + 1);
    node.value = value;
    return add(node);
  }

  // Behind it stands whatever follows the digits.
  std::int64_t digits() {
    const std::size_t begin = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value)) {
        fail(begin, "the number does not fit 64 bits");
      }
    }
    return value;
  }

  int quoted(char quote) {
    const std::size_t begin = at_;
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail(begin, "the quoted name has no closing quote");
    if (end == begin + 1) fail(begin, "the quoted name is empty");
    Node node;
    node.quoted = true;
    node.column = static_cast<std::uint32_t>(begin + 1);
    node.value = vocabulary_.intern(text_.substr(begin + 1, end - begin - 1));
    at_ = end + 1;
    skip_blanks();
    return add(node);
  }

  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_name_part(text_[at_]) || text_[at_] == '.')) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    skip_blanks();
    return word;
  }

  int load(std::string_view word, std::size_t position) {
    Node node;
    node.op = Op::load;
    node.column = static_cast<std::uint32_t>(position + 1);
    node.slot = resolve(word, position);
    return add(node);
  }

  Slot resolve(std::string_view word, std::size_t position) {
    const std::size_t dot = word.find('.');
    if (const std::optional<Slot> slot = vocabulary_.find(word)) return *slot;
    if (dot == std::string_view::npos) {
      std::vector<std::string> known;
      for (const std::string& known_name : vocabulary_.names()) {
        if (known_name.find('.') == std::string::npos) known.push_back(known_name);
      }
      fail(position, unknown_name("name", word, known));
    }
    const std::string_view group = word.substr(0, dot);
    const std::string_view member = word.substr(dot + 1);
    if (group != "problem" && group != "device") {
      fail(position, unknown_name("name", word.substr(0, dot + 1), {"problem.", "device."}));
    }
    if (member.empty() || !is_name_start(member[0]) || member.find('.') != std::string_view::npos) {
      fail(position, "'" + std::string(word) + "' is not " + std::string(group) + ".NAME");
    }
    return vocabulary_.add_environment(word);
  }

  std::string_view text_;
  std::string_view where_;
  Vocabulary& vocabulary_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  std::vector<Node> nodes_;
};

}  // namespace moetune
