#include "search/empty_space.h"

#include <algorithm>
#include <set>

namespace moetune {
namespace {

// The constraints that say most; the rest of a long list says no more.
constexpr std::size_t kNamed = 4;

// The names from problem and device behind an expression, through lets too, of which each is entered once.
void collect_environment(const SpaceFile& file, const Expression& expression, std::set<Slot>& names,
                         std::set<Slot>& entered) {
  for (const Slot slot : expression.slots()) {
    const Vocabulary::Kind kind = file.vocabulary[slot].kind;
    if (kind == Vocabulary::Kind::environment) names.insert(slot);
    if (kind != Vocabulary::Kind::let || !entered.insert(slot).second) continue;
    const auto let = std::find_if(file.lets.begin(), file.lets.end(), [&](const auto& l) { return l.slot == slot; });
    collect_environment(file, let->expression, names, entered);
  }
}

// " with problem.batch=64, device.sm_count=132"
std::string values_text(const BoundSpace& space, const Expression& expression) {
  std::set<Slot> names, entered;
  collect_environment(space.file(), expression, names, entered);
  std::string text;
  for (const Slot slot : names) {
    const std::string& name = space.file().vocabulary[slot].name;
    const Value* value = space.environment().find(name);
    if (value != nullptr) text += (text.empty() ? ", with " : ", ") + name + "=" + value->text();
  }
  return text;
}

std::string count_text(const BoundSpace::Rule& rule, const Rejections& rejections,
                       const std::vector<Parameter>& parameters) {
  const std::string count = std::to_string(rejections.total);
  if (rule.parameters.empty()) return "rejects every configuration";
  if (rule.parameters.size() == 1) {
    return "rejected " + count + " of the " + std::to_string(parameters[rule.parameters[0]].values.size()) +
           " values of " + parameters[rule.parameters[0]].name;
  }
  return "rejected " + count + " partial assignment" + (rejections.total == 1 ? "" : "s");
}

std::string undefined_text(const Rejections& rejections) {
  if (rejections.undefined == 0) return "";
  const std::string share =
      rejections.undefined == rejections.total ? "" : " for " + std::to_string(rejections.undefined) + " of them";
  return ", without a value" + share + " (" + kWhyUndefined + ")";
}

std::string constraint_text(const BoundSpace& space, std::size_t number, const Rejections& rejections) {
  const SpaceFile::Constraint& constraint = space.constraint(number);
  const BoundSpace::Rule& rule = space.constraints()[number];
  return "\"" + constraint.expression.text() + "\" (" + std::string(kind_name(constraint.kind)) + ": " +
         constraint.why + ") " + count_text(rule, rejections, space.file().parameters) + undefined_text(rejections) +
         values_text(space, constraint.expression);
}

// Parameters with no value left by gates alone.
std::string closed_text(const BoundSpace& space) {
  std::string text;
  for (std::size_t p = 0; p < space.file().parameters.size(); ++p) {
    const Parameter& parameter = space.file().parameters[p];
    const auto allowed = [&](std::size_t i) { return space.allowed(p, static_cast<Position>(i)); };
    std::size_t open = 0;
    for (std::size_t i = 0; i < parameter.values.size(); ++i) open += allowed(i);
    if (open == 0) text += (text.empty() ? "" : "; ") + ("the gates of " + parameter.name) + " close all its values";
  }
  return text;
}

}  // namespace

std::string explain_empty(const BoundSpace& space, const EnumerationStats& stats) {
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < stats.rejections.size(); ++c) {
    if (stats.rejections[c].total > 0) order.push_back(c);
  }
  // A constraint that is false before any parameter is bound rejects everything.
  const auto weight = [&](std::size_t c) {
    return space.constraints()[c].parameters.empty() ? ~std::uint64_t{0} : stats.rejections[c].total;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weight(a) > weight(b); });
  std::string text = closed_text(space);
  for (std::size_t i = 0; i < std::min(order.size(), kNamed); ++i) {
    text += (text.empty() ? "" : "; ") + constraint_text(space, order[i], stats.rejections[order[i]]);
  }
  if (order.size() > kNamed) {
    text += "; and " + std::to_string(order.size() - kNamed) + " more constraints rejected some";
  }
  return text;
}

}  // namespace moetune
