#include "cli/option_table.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/duration.h"
#include "base/error.h"
#include "base/format.h"
#include "base/lists.h"
#include "base/suggest.h"

namespace moetune {
namespace {

namespace po = boost::program_options;

// Exact names only: a guessed prefix in a script would change its meaning when an option is added.
constexpr int kStyle = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                       po::command_line_style::long_allow_next;

std::string dashed(std::string_view name) { return "--" + std::string(name); }

template <typename Number>
bool parse_number(const std::string& text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

std::string with_default(std::string_view doc, const std::string& value) {
  return std::string(doc) + " (" + value + ")";
}

double parse_span(const std::string& option, const std::string& value, bool may_be_zero) {
  try {
    return parse_duration(value, may_be_zero);
  } catch (const BadInput& error) {
    throw BadInput(option + " " + error.what());
  }
}

// Options are spelled as kernels spell dimensions, too: --q_heads.
std::string with_dashes(const std::string& argument) {
  std::string spelled = argument;
  if (argument.starts_with("--"))
    std::replace(spelled.begin(),
                 spelled.begin() + static_cast<std::ptrdiff_t>(std::min(argument.find('='), argument.size())), '_',
                 '-');
  return spelled;
}

}  // namespace

void OptionTable::flag(std::string_view name, bool& target, std::string_view doc) {
  add({std::string(name), "", std::string(doc), [&target](const std::string&) { target = true; }});
}

void OptionTable::text(std::string_view name, std::string_view value_name, std::string& target, std::string_view doc) {
  add({std::string(name), std::string(value_name), target.empty() ? std::string(doc) : with_default(doc, target),
       [&target, option = dashed(name)](const std::string& value) {
         if (value.empty()) throw BadInput(option + " takes no empty value");
         target = value;
       }});
}

void OptionTable::text(std::string_view name, std::string_view value_name, std::optional<std::string>& target,
                       std::string_view doc) {
  add({std::string(name), std::string(value_name), std::string(doc),
       [&target](const std::string& value) { target = value; }});
}

void OptionTable::word(std::string_view name, std::string_view value_name, std::string& target,
                       std::vector<std::string> choices, std::string_view doc) {
  const auto set = [&target, choices, option = dashed(name)](const std::string& value) {
    if (std::ranges::find(choices, value) == choices.end())
      throw BadInput(option + ": " + unknown_name("value", value, choices));
    target = value;
  };
  add({std::string(name), std::string(value_name), target.empty() ? std::string(doc) : with_default(doc, target), set,
       choices});
}

void OptionTable::whole(std::string_view name, std::uint64_t& target, std::uint64_t minimum, std::uint64_t maximum,
                        std::string_view doc) {
  const auto set = [&target, minimum, maximum, option = dashed(name)](const std::string& value) {
    std::uint64_t number = 0;
    if (parse_number(value, number) && number >= minimum && number <= maximum) {
      target = number;
      return;
    }
    const bool open = maximum == std::numeric_limits<std::uint64_t>::max();
    throw BadInput(option + " takes a whole number " +
                   (open ? "of at least " + std::to_string(minimum)
                         : "from " + std::to_string(minimum) + " to " + std::to_string(maximum)) +
                   ", not '" + value + "'");
  };
  add({std::string(name), "N", with_default(doc, std::to_string(target)), set});
}

void OptionTable::positive(std::string_view name, std::string_view value_name, std::string_view unit, double& target,
                           std::string_view doc) {
  const auto set = [&target, option = dashed(name), kind = std::string(unit)](const std::string& value) {
    double number = 0;
    if (!parse_number(value, number) || !std::isfinite(number) || number <= 0) {
      throw BadInput(option + " takes a " + kind + " greater than zero, not '" + value + "'");
    }
    target = number;
  };
  const std::string text = target > 0 ? with_default(doc, format("%g", target)) : std::string(doc);
  add({std::string(name), std::string(value_name), text, set});
}

void OptionTable::percent(std::string_view name, double& target, std::string_view doc) {
  const auto set = [&target, option = dashed(name)](const std::string& value) {
    double number = 0;
    const bool has_unit = value.ends_with('%');
    const bool is_number = parse_number(value.substr(0, value.size() - (has_unit ? 1 : 0)), number);
    if (!is_number || !(number > 0 && number <= 100))
      throw BadInput(option + " takes a percentage above 0 and at most 100, not '" + value + "'");
    target = number;
  };
  const std::string text = target > 0 ? with_default(doc, format("%g", target)) : std::string(doc);
  add({std::string(name), "PERCENT", text, set});
}

void OptionTable::span(std::string_view name, double& target, std::string_view doc) {
  const auto set = [&target, option = dashed(name)](const std::string& value) {
    target = parse_span(option, value, false);
  };
  add({std::string(name), "SPAN", target > 0 ? with_default(doc, span_text(target)) : std::string(doc), set});
}

void OptionTable::span(std::string_view name, std::uint64_t& target, std::string_view doc) {
  const auto set = [&target, option = dashed(name)](const std::string& value) {
    target = static_cast<std::uint64_t>(std::ceil(parse_span(option, value, true)));
  };
  add({std::string(name), "SPAN", with_default(doc, span_text(static_cast<double>(target))), set});
}

void OptionTable::positional(std::string_view value_name, std::string& target, bool required, std::string_view doc) {
  positionals_.push_back({std::string(value_name), std::string(doc), required, false,
                          [&target](const std::string& word) { target = word; }});
}

void OptionTable::positional(std::string_view value_name, std::optional<std::string>& target, bool required,
                             std::string_view doc) {
  positionals_.push_back({std::string(value_name), std::string(doc), required, false,
                          [&target](const std::string& word) { target = word; }});
}

void OptionTable::words(std::string_view value_name, std::vector<std::string>& target, std::string_view doc) {
  positionals_.push_back({std::string(value_name), std::string(doc), false, true,
                          [&target](const std::string& word) { target.push_back(word); }});
}

void OptionTable::only_with(std::string_view other, std::initializer_list<std::string_view> options) {
  for (const std::string_view option : options) rules_.push_back({std::string(option), std::string(other), {}});
}

void OptionTable::only_after(std::initializer_list<std::string_view> words,
                             std::initializer_list<std::string_view> options) {
  for (const std::string_view option : options)
    rules_.push_back({std::string(option), "", {words.begin(), words.end()}});
}

void OptionTable::at_odds(std::string_view option, std::initializer_list<std::string_view> others) {
  for (const std::string_view other : others) odds_.emplace_back(option, other);
}

void OptionTable::without_setting(std::initializer_list<std::string_view> options) {
  for (const std::string_view option : options) find(option).takes_setting = false;
}

void OptionTable::drop_hidden_dimensions() {
  std::set<std::string> names;
  for (const Option& option : options_)
    if (!option.is_dimension) names.insert(option.name);
  std::erase_if(options_, [&](const Option& option) { return option.is_dimension && names.contains(option.name); });
}

void OptionTable::choices(std::string_view option, std::vector<std::string> values) {
  find(option).choices = std::move(values);
}

void OptionTable::setting(std::string_view option, std::string& target) {
  find(option).setting = [&target](const std::string& value) { target = value; };
}

// A kernel's dimension of the same name gives way (drop_hidden_dimensions).
OptionTable::Option& OptionTable::find(std::string_view name) {
  const auto own =
      std::ranges::find_if(options_, [&](const Option& option) { return option.name == name && !option.is_dimension; });
  return own != options_.end() ? *own : *std::ranges::find(options_, name, &Option::name);
}

bool OptionTable::fits_after(const std::string& option, const std::string& word) const {
  return std::ranges::all_of(rules_, [&](const Rule& rule) {
    return rule.option != option || rule.words.empty() || std::ranges::find(rule.words, word) != rule.words.end();
  });
}

void OptionTable::check_rules(const std::set<std::string>& given, const std::vector<std::string>& words) const {
  for (const Rule& rule : rules_) {
    if (!given.contains(rule.option)) continue;
    if (!rule.words.empty() && !fits_after(rule.option, words.front()))
      throw BadInput(dashed(rule.option) + " is for " + enumerated(rule.words, " and ") + ", not for " + words.front());
    if (!rule.needed.empty() && !given.contains(rule.needed))
      throw BadInput(dashed(rule.option) + " needs " + dashed(rule.needed) + ", too");
  }
}

void OptionTable::unknown(const std::string& written) const {
  throw BadInput(unknown_name("option", written.substr(0, written.find('=')), options_,
                              [](const Option& option) { return dashed(option.name); }));
}

void OptionTable::fill_positionals(const std::vector<std::string>& words) const {
  for (const std::string& word : words) {
    if (word.size() < 2 || word.front() != '-') continue;
    const bool declared =
        std::ranges::any_of(options_, [&](const Option& option) { return dashed(option.name) == word; });
    if (declared) throw BadInput("the option " + word + " comes after --, which makes it a plain word");
    unknown(word);
  }
  const bool repeats = !positionals_.empty() && positionals_.back().repeats;
  if (words.size() > positionals_.size() && !repeats) {
    const std::string& word = words[positionals_.size()];
    throw BadInput(
        "unexpected word '" + word + "' after the " +
        (positionals_.empty() ? "command" : positionals_.back().value_name) +
        (word.find('=') == std::string::npos ? "" : "; dimensions are one word, with commas: --problem a=1,b=2"));
  }
  for (std::size_t i = 0; i < positionals_.size(); ++i) {
    if (i < words.size()) {
      positionals_[i].set(words[i]);
    } else if (positionals_[i].required) {
      throw BadInput(positionals_[i].value_name + " is missing: " + positionals_[i].doc);
    }
  }
  for (std::size_t i = positionals_.size(); i < words.size(); ++i) positionals_.back().set(words[i]);
}

// The options in order, with the words between them.
std::vector<OptionTable::Item> OptionTable::split(const std::vector<std::string>& arguments,
                                                  std::vector<std::string>& words) const {
  std::map<std::string, const Option*> known;  // of a dimension and an option of one name this is the option
  for (const Option& option : options_) {
    if (!option.is_dimension || !known.contains(option.name)) known[option.name] = &option;
  }
  po::options_description description;
  for (const auto& [name, option] : known) {
    if (option->value_name.empty()) {
      description.add_options()(name.c_str(), "");
    } else {
      description.add_options()(name.c_str(), po::value<std::string>(), "");
    }
  }
  const std::vector<std::string> spelled = gathered(arguments, with_dashes);
  std::vector<Item> items;
  try {
    const po::parsed_options parsed = po::command_line_parser(spelled).options(description).style(kStyle).run();
    for (const auto& item : parsed.options) {
      if (item.position_key >= 0) {
        words.insert(words.end(), item.value.begin(), item.value.end());
      } else {
        items.push_back({known.at(item.string_key), item.value.empty() ? "" : item.value.front()});
      }
    }
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    const std::size_t letters = name.find_first_not_of('-');
    if (letters == std::string::npos) throw BadInput("'" + name + "' is no option");
    unknown(dashed(name.substr(letters)));
  } catch (const po::error_with_option_name& error) {
    const std::string name = error.get_option_name();
    const auto option = known.find(name.substr(std::min(name.find_first_not_of('-'), name.size())));
    if (option == known.end()) throw BadInput(error.what());
    const std::string written = dashed(option->first), &value_name = option->second->value_name;
    if (value_name.empty()) throw BadInput(written + " takes no value");
    throw BadInput(written + " needs a value: " + written + " " + value_name);
  } catch (const po::error& error) {
    throw BadInput(error.what());
  }
  return items;
}

// Takes the settings that the given options leave room for. If two settings are at odds, the first one holds.
void OptionTable::take_settings(const std::vector<Setting>& settings, const std::set<std::string>& given,
                                const std::vector<std::string>& words) {
  std::set<std::string> in_force = given;
  const auto is_fit = [&](const std::string& name) {
    const auto found = std::ranges::find(options_, name, &Option::name);
    return found != options_.end() && found->takes_setting && !given.contains(name) &&
           (words.empty() || fits_after(name, words.front())) && std::ranges::none_of(odds_, [&](const auto& pair) {
             return (pair.first == name && given.contains(pair.second)) ||
                    (pair.second == name && in_force.contains(pair.first));
           });
  };
  for (const Setting& setting : settings) {
    if (is_fit(setting.name)) in_force.insert(setting.name);
  }
  for (const Setting& setting : settings) {
    const bool lacks_other = std::ranges::any_of(rules_, [&](const Rule& rule) {
      return rule.option == setting.name && !rule.needed.empty() && !in_force.contains(rule.needed);
    });
    if (lacks_other || !is_fit(setting.name)) continue;
    const Option& option = find(setting.name);
    try {
      (option.setting ? option.setting : option.set)(setting.value);
    } catch (const BadInput& error) {
      throw BadInput(setting.file + ": " + error.what());
    }
    sources_[setting.name] = setting.file;
  }
}

void OptionTable::parse(const std::vector<std::string>& arguments, const std::vector<Setting>& settings) {
  std::vector<std::string> words;
  const std::vector<Item> items = split(arguments, words);
  std::set<std::string> given;
  for (const Item& item : items) given.insert(item.option->name);
  fill_positionals(words);
  take_settings(settings, given, words);
  for (const Item& item : items) item.option->set(item.value);
  for (const auto& [name, file] : sources_) given.insert(name);
  check_rules(given, words);
}

std::string OptionTable::source_of(const std::string& option) const {
  const auto found = sources_.find(option);
  return found == sources_.end() ? "" : found->second;
}

std::string OptionTable::usage() const {
  std::string text;
  for (const Positional& word : positionals_) {
    const std::string name = word.value_name + (word.repeats ? "..." : "");
    text += (text.empty() ? "" : " ") + (word.required ? name : "[" + name + "]");
  }
  return text + (text.empty() ? "" : " ") + "[options]";
}

}  // namespace moetune
