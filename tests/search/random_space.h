// A random space for property tests: it writes itself as a space file, and decides by an evaluator of its own
// (a tree walk that shares nothing with the compiled programs) which points are legal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "search/assignment.h"
#include "search/legal_space.h"
#include "search/random.h"

namespace moetune {

struct RandomTree {
  std::string op;  // an operator, a function, "number", or "name"
  std::int64_t number = 0;
  std::size_t name = 0;
  std::vector<RandomTree> operands;

  std::string text(const std::vector<std::string>& names) const {
    const auto operand = [&](std::size_t i) { return operands[i].text(names); };
    if (op == "number") return std::to_string(number);
    if (op == "name") return names[name];
    if (op == "?") return "(" + operand(0) + " ? " + operand(1) + " : " + operand(2) + ")";
    if (op == "!" || op == "-u") return (op == "!" ? "!(" : "-(") + operand(0) + ")";
    if (op == "min" || op == "max" || op == "ceil_div") return op + "(" + operand(0) + ", " + operand(1) + ")";
    if (op == "log2" || op == "is_pow2") return op + "(" + operand(0) + ")";
    return "(" + operand(0) + " " + op + " " + operand(1) + ")";
  }

  // nullopt where there is no value.
  std::optional<std::int64_t> value(const std::vector<std::optional<std::int64_t>>& names) const {
    if (op == "number") return number;
    if (op == "name") return names[name];
    const std::optional<std::int64_t> a = operands[0].value(names);
    if (!a) return std::nullopt;
    if (op == "?") return operands[*a != 0 ? 1 : 2].value(names);
    if (op == "&&" && *a == 0) return 0;
    if (op == "||" && *a != 0) return 1;
    if (op == "!") return *a == 0;
    if (op == "-u") return -*a;
    if (op == "is_pow2") return *a > 0 && (*a & (*a - 1)) == 0;
    if (op == "log2") return floor_log2(*a);
    const std::optional<std::int64_t> b = operands[1].value(names);
    if (!b) return std::nullopt;
    return binary(*a, *b);
  }

 private:
  static std::optional<std::int64_t> floor_log2(std::int64_t a) {
    if (a <= 0) return std::nullopt;
    std::int64_t power = 0;
    while (a >>= 1) ++power;
    return power;
  }

  std::optional<std::int64_t> binary(std::int64_t a, std::int64_t b) const {
    if (op == "&&" || op == "||") return b != 0;
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<") return a < b;
    if (op == "<=") return a <= b;
    if (op == ">") return a > b;
    if (op == ">=") return a >= b;
    if (op == "+") return a + b;
    if (op == "-") return a - b;
    if (op == "*") return a * b;
    if (op == "min") return a < b ? a : b;
    if (op == "max") return a < b ? b : a;
    if (b == 0) return std::nullopt;
    if (op == "/") return a / b;
    if (op == "%") return a % b;
    std::int64_t quotient = a / b;  // ceil_div
    while (b > 0 ? quotient * b < a : quotient * b > a) ++quotient;
    while (b > 0 ? (quotient - 1) * b >= a : (quotient - 1) * b <= a) --quotient;
    return quotient;
  }
};

class RandomSpace {
 public:
  explicit RandomSpace(std::uint64_t seed) : random_(seed * 7919) {
    const std::size_t parameters = 2 + random_.below(5);
    for (std::size_t p = 0; p < parameters; ++p) {
      names_.push_back("p" + std::to_string(p));
      std::vector<std::int64_t>& domain = domains.emplace_back();
      const std::size_t size = 1 + random_.below(6);
      while (domain.size() < size) {
        const auto value = static_cast<std::int64_t>(random_.below(24)) - 4;
        if (std::find(domain.begin(), domain.end(), value) == domain.end()) domain.push_back(value);
      }
    }
    names_.push_back("problem.x");
    names_.push_back("device.y");
    environment_ = {static_cast<std::int64_t>(random_.below(20)), static_cast<std::int64_t>(random_.below(20))};
    const std::size_t visible = names_.size();
    const std::size_t lets = random_.below(4);
    for (std::size_t i = 0; i < lets; ++i) {
      lets_.push_back(number_tree(3, visible + i));
      names_.push_back("q" + std::to_string(i));
    }
    const std::size_t constraints = 1 + random_.below(4);
    for (std::size_t i = 0; i < constraints; ++i) constraints_.push_back(truth_tree(2));
    for (std::size_t i = 0; i < lets; ++i) constraints_.push_back(use_of(visible + i));
    gated_ = random_.below(parameters);
    gate_minimum_ = static_cast<std::int64_t>(random_.below(20));
  }

  std::string json() const {
    std::string text = "{\"kernel\": \"random\", \"parameters\": [";
    for (std::size_t p = 0; p < domains.size(); ++p) {
      text += (p > 0 ? ", " : "") + ("{\"name\": \"" + names_[p] + "\", \"values\": [");
      for (std::size_t i = 0; i < domains[p].size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(domains[p][i]);
      text += "]";
      if (p == gated_) {
        text += ", \"gates\": {\"" + std::to_string(domains[p].back()) +
                "\": \"device.y >= " + std::to_string(gate_minimum_) + "\"}";
      }
      text += "}";
    }
    text += "], \"let\": {";
    for (std::size_t i = 0; i < lets_.size(); ++i) {
      text += (i > 0 ? ", " : "") + ("\"q" + std::to_string(i) + "\": \"" + lets_[i].text(names_) + "\"");
    }
    text += "}, \"constraints\": [";
    for (std::size_t i = 0; i < constraints_.size(); ++i) {
      text += (i > 0 ? ", " : "") + ("{\"expr\": \"" + constraints_[i].text(names_) + "\", \"why\": \"w\"}");
    }
    return text + "]}";
  }

  Assignment environment() const {
    return {{"problem.x", Value::integer(environment_[0])}, {"device.y", Value::integer(environment_[1])}};
  }

  bool is_legal(const std::vector<Position>& point) const {
    if (point[gated_] + 1u == domains[gated_].size() && environment_[1] < gate_minimum_) return false;
    std::vector<std::optional<std::int64_t>> values;
    for (std::size_t p = 0; p < point.size(); ++p) values.push_back(domains[p][point[p]]);
    values.insert(values.end(), environment_.begin(), environment_.end());
    for (const RandomTree& let : lets_) values.push_back(let.value(values));
    for (const RandomTree& constraint : constraints_) {
      if (constraint.value(values).value_or(0) == 0) return false;
    }
    return true;
  }

  std::vector<std::vector<std::int64_t>> domains;

 private:
  const std::string& pick(const std::vector<std::string>& from) { return from[random_.below(from.size())]; }

  RandomTree leaf(std::size_t visible) {
    if (random_.below(4) == 0) return {"number", static_cast<std::int64_t>(random_.below(12)), 0, {}};
    return {"name", 0, random_.below(visible), {}};
  }

  RandomTree number_tree(int depth, std::size_t visible) {
    if (depth == 0 || random_.below(4) == 0) return leaf(visible);
    static const std::vector<std::string> kOps = {"+",   "-",        "*",  "/",    "%", "min",
                                                  "max", "ceil_div", "-u", "log2", "?", "is_pow2"};
    const std::string op = pick(kOps);
    RandomTree tree{op, 0, 0, {}};
    const std::size_t operands = op == "?" ? 3 : op == "-u" || op == "log2" || op == "is_pow2" ? 1 : 2;
    for (std::size_t i = 0; i < operands; ++i) tree.operands.push_back(number_tree(depth - 1, visible));
    return tree;
  }

  RandomTree truth_tree(int depth) {
    static const std::vector<std::string> kComparisons = {"<", "<=", ">", ">=", "!=", "=="};
    if (depth > 0 && random_.below(2) == 0) {
      static const std::vector<std::string> kLogic = {"||", "&&", "!"};
      const std::string op = pick(kLogic);
      RandomTree tree{op, 0, 0, {truth_tree(depth - 1)}};
      if (op != "!") tree.operands.push_back(truth_tree(depth - 1));
      return tree;
    }
    RandomTree tree{pick(kComparisons), 0, 0, {}};
    tree.operands = {number_tree(2, names_.size()), number_tree(1, names_.size())};
    // A constraint that names nothing is an error of the space file.
    tree.operands[0] = {"+", 0, 0, {tree.operands[0], {"*", 0, 0, {{"number", 0, 0, {}}, {"name", 0, 0, {}}}}}};
    return tree;
  }

  RandomTree use_of(std::size_t name) {
    return {"<=", 0, 0, {{"name", 0, name, {}}, {"number", 10 + static_cast<std::int64_t>(random_.below(200)), 0, {}}}};
  }

  Random random_;
  std::vector<std::string> names_;  // parameters, problem.x, device.y, lets
  std::vector<std::int64_t> environment_;
  std::vector<RandomTree> lets_;
  std::vector<RandomTree> constraints_;
  std::size_t gated_ = 0;
  std::int64_t gate_minimum_ = 0;
};

}  // namespace moetune
