#include "search/space.h"

#include <algorithm>

#include "base/error.h"
#include "search/bound_defaults.h"
#include "search/bound_space.h"
#include "search/empty_space.h"
#include "search/enumerate.h"
#include "search/point_check.h"
#include "search/space_file.h"

namespace moetune {

struct Space::Impl {
  SpaceFile file;
};

namespace {

std::optional<Position> position_of(const Parameter& parameter, const Value& value) {
  const std::string text = value.text();
  for (std::size_t i = 0; i < parameter.values.size(); ++i) {
    if (parameter.values[i].text() == text) return static_cast<Position>(i);
  }
  return std::nullopt;
}

std::string why_illegal_in(const BoundSpace& space, const Config& config) {
  const std::vector<Parameter>& parameters = space.file().parameters;
  std::vector<Position> point;
  for (const Parameter& parameter : parameters) {
    const Value* value = config.find(parameter.name);
    if (value == nullptr) return "parameter '" + parameter.name + "' has no value";
    const std::optional<Position> position = position_of(parameter, *value);
    if (!position) return parameter.name + "=" + value->text() + " is not in the parameter's domain";
    point.push_back(*position);
  }
  if (config.size() != parameters.size()) return "it has parameters that the space does not know";
  return space.why_illegal(point);
}

// The configuration of a default; nullopt if it is illegal.
std::optional<Config> legal_config(const PointCheck& check, const SpaceFile& file, const SpaceFile::Default& rule,
                                   Rules rules) {
  Config config = rule.config;
  if (!rule.choice) return check.is_legal(config, rules) ? std::optional(config) : std::nullopt;
  const std::int64_t limit = check.evaluate(rule.choice->at_most);  // kUndefined is below every value
  for (const Value& value : rule.choice->values) {
    if (value.number > limit) continue;
    config.set(file.parameters[rule.choice->parameter].name, value);
    if (check.is_legal(config, rules)) return config;
  }
  return std::nullopt;
}

}  // namespace

Space::Space(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Space::Space(Space&&) noexcept = default;
Space& Space::operator=(Space&&) noexcept = default;
Space::~Space() = default;

Space Space::parse(std::string_view text, std::string_view file) {
  return Space(std::make_unique<Impl>(Impl{read_space_file(text, file)}));
}

const std::string& Space::kernel() const { return impl_->file.kernel; }
const std::vector<Parameter>& Space::parameters() const { return impl_->file.parameters; }

LegalSpace Space::enumerate(const Assignment& environment, Rules rules, EnumerationStats* stats) const {
  return LegalSpace(parameters(), enumerate_rows(BoundSpace(impl_->file, environment, rules), stats));
}

std::uint64_t Space::count(const Assignment& environment, Rules rules) const {
  return count_rows(BoundSpace(impl_->file, environment, rules));
}

std::string Space::why_empty(const Assignment& environment) const {
  const BoundSpace space(impl_->file, environment, Rules::all);
  EnumerationStats stats;
  if (!enumerate_rows(space, &stats).empty()) return "";
  return explain_empty(space, stats);
}

std::optional<Config> Space::default_config(const Assignment& environment) const {
  const PointCheck check(impl_->file, environment);
  for (const Rules rules : {Rules::all, Rules::must}) {
    for (const SpaceFile::Default& rule : impl_->file.defaults) {
      if (rule.when && !check.holds(*rule.when)) continue;
      if (std::optional<Config> config = legal_config(check, impl_->file, rule, rules)) return config;
    }
  }
  return std::nullopt;
}

std::unique_ptr<BoundDefaults> Space::bind_defaults(const Assignment& environment,
                                                    const std::vector<std::string>& varying) const {
  return std::make_unique<BoundDefaults>(impl_->file, environment, varying);
}

std::unique_ptr<BoundDefaults> Space::bind_defaults(const Assignment& environment,
                                                    const std::vector<std::string>& varying, const std::string& name,
                                                    const std::string& of, std::int64_t factor) const {
  return std::make_unique<BoundDefaults>(impl_->file, environment, varying, BoundDefaults::Multiple{name, of, factor});
}

Config Space::parse_values(std::string_view text) const {
  if (text.empty()) throw BadInput("the configuration names no parameter; it would be like tile=64,stages=3");
  return values_from_texts(parameters(), split_assignment(text, "the configuration"));
}

Config Space::parse_config(std::string_view text, const Config* base) const {
  const Config given = parse_values(text);
  Config config;
  config.reserve(parameters().size());
  for (const Parameter& parameter : parameters()) {
    const Value* value = given.find(parameter.name);
    if (value == nullptr && base != nullptr) value = base->find(parameter.name);
    if (value == nullptr)
      throw BadInput("parameter '" + parameter.name + "' has no value in '" + std::string(text) + "'");
    config.set(parameter.name, *value);
  }
  return config;
}

Transfer Space::transfer(const Assignment& there, const Assignment& here) const {
  return Transfer(BoundSpace(impl_->file, there, Rules::all), BoundSpace(impl_->file, here, Rules::all));
}

std::string Space::why_illegal(const Config& config, const Assignment& environment, Rules rules) const {
  return why_illegal_in(BoundSpace(impl_->file, environment, rules), config);
}

}  // namespace moetune
