#include "cli/option_table.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <sstream>

#include "base/error.h"
#include "base/format.h"
#include "base/suggest.h"

namespace moetune {
namespace {

namespace po = boost::program_options;

// Exact names only: a guessed prefix in a script would change its meaning when an option is added.
constexpr int kStyle = po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent |
                       po::command_line_style::long_allow_next;

constexpr double kMostSeconds = 1e7;  // clocks count in 64 bits of nanoseconds

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

}  // namespace

void OptionTable::flag(std::string_view name, bool& target, std::string_view doc) {
  options_.push_back(
      {std::string(name), "", std::string(doc), [&target](const std::string&) { target = true; }});
}

void OptionTable::text(std::string_view name, std::string_view value_name, std::string& target,
                       std::string_view doc) {
  options_.push_back({std::string(name), std::string(value_name),
                      target.empty() ? std::string(doc) : with_default(doc, target),
                      [&target, option = dashed(name)](const std::string& value) {
                        if (value.empty()) throw BadInput(option + " takes no empty value");
                        target = value;
                      }});
}

void OptionTable::text(std::string_view name, std::string_view value_name, std::optional<std::string>& target,
                       std::string_view doc) {
  options_.push_back({std::string(name), std::string(value_name), std::string(doc),
                      [&target](const std::string& value) { target = value; }});
}

void OptionTable::whole(std::string_view name, std::uint64_t& target, std::uint64_t minimum,
                        std::uint64_t maximum, std::string_view doc) {
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
  options_.push_back({std::string(name), "N", with_default(doc, std::to_string(target)), set});
}

void OptionTable::positive(std::string_view name, std::string_view value_name, std::string_view unit,
                           double& target, std::string_view doc) {
  const auto set = [&target, option = dashed(name), kind = std::string(unit)](const std::string& value) {
    double number = 0;
    if (!parse_number(value, number) || !std::isfinite(number) || number <= 0) {
      throw BadInput(option + " takes a " + kind + " greater than zero, not '" + value + "'");
    }
    target = number;
  };
  const std::string text = target > 0 ? with_default(doc, format("%g", target)) : std::string(doc);
  options_.push_back({std::string(name), std::string(value_name), text, set});
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
  options_.push_back({std::string(name), "PERCENT", text, set});
}

void OptionTable::seconds(std::string_view name, double& target, std::string_view doc) {
  const std::size_t index = options_.size();
  positive(name, "S", "number of seconds", target, doc);
  options_[index].set = [plain = options_[index].set, option = dashed(name),
                         &target](const std::string& value) {
    const std::size_t unit = value.empty() ? std::string::npos : std::string_view("smh").find(value.back());
    static constexpr double kUnits[] = {1, 60, 3600};
    plain(unit == std::string::npos ? value : value.substr(0, value.size() - 1));
    if (unit != std::string::npos) target *= kUnits[unit];
    if (target > kMostSeconds)
      throw BadInput(option + " takes at most " + format("%g", kMostSeconds) + " seconds, not '" + value +
                     "'");
  };
}

void OptionTable::positional(std::string_view value_name, std::string& target, bool required,
                             std::string_view doc) {
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
  for (const std::string_view option : options)
    rules_.push_back({std::string(option), std::string(other), false});
}

void OptionTable::only_after(std::string_view word, std::initializer_list<std::string_view> options) {
  for (const std::string_view option : options)
    rules_.push_back({std::string(option), std::string(word), true});
}

void OptionTable::check_rules(const std::set<std::string>& given,
                              const std::vector<std::string>& words) const {
  for (const Rule& rule : rules_) {
    if (!given.contains(rule.option)) continue;
    if (rule.needs_word && words.front() != rule.needed)
      throw BadInput(dashed(rule.option) + " is for " + rule.needed + ", not for " + words.front());
    if (!rule.needs_word && !given.contains(rule.needed))
      throw BadInput(dashed(rule.option) + " needs " + dashed(rule.needed) + ", too");
  }
}

void OptionTable::unknown(const std::string& written) const {
  std::vector<std::string> names;
  for (const Option& option : options_) names.push_back(dashed(option.name));
  throw BadInput(unknown_name("option", written.substr(0, written.find('=')), names));
}

void OptionTable::fill_positionals(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word.size() < 2 || word.front() != '-') continue;
    const bool declared = std::any_of(options_.begin(), options_.end(),
                                      [&](const Option& option) { return dashed(option.name) == word; });
    if (declared) throw BadInput("the option " + word + " comes after --, which makes it a plain word");
    unknown(word);
  }
  const bool repeats = !positionals_.empty() && positionals_.back().repeats;
  if (words.size() > positionals_.size() && !repeats) {
    const std::string& word = words[positionals_.size()];
    throw BadInput("unexpected word '" + word + "' after the " +
                   (positionals_.empty() ? "command" : positionals_.back().value_name) +
                   (word.find('=') == std::string::npos
                        ? ""
                        : "; dimensions are one word, with commas: --problem a=1,b=2"));
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

void OptionTable::parse(const std::vector<std::string>& arguments) {
  po::options_description description;
  for (const Option& option : options_) {
    if (option.value_name.empty()) {
      description.add_options()(option.name.c_str(), "");
    } else {
      description.add_options()(option.name.c_str(), po::value<std::string>(), "");
    }
  }
  std::vector<std::string> words;
  std::set<std::string> seen;
  try {
    const po::parsed_options parsed =
        po::command_line_parser(arguments).options(description).style(kStyle).run();
    for (const auto& item : parsed.options) {
      if (item.position_key >= 0) {
        words.insert(words.end(), item.value.begin(), item.value.end());
        continue;
      }
      const auto option = std::find_if(options_.begin(), options_.end(),
                                       [&](const Option& o) { return o.name == item.string_key; });
      if (!seen.insert(option->name).second) throw BadInput(dashed(option->name) + " occurs twice");
      option->set(item.value.empty() ? "" : item.value.front());
    }
  } catch (const po::unknown_option& error) {
    const std::string name = error.get_option_name();
    const std::size_t letters = name.find_first_not_of('-');
    if (letters == std::string::npos) throw BadInput("'" + name + "' is no option");
    unknown(dashed(name.substr(letters)));
  } catch (const po::error_with_option_name& error) {
    const std::string name = error.get_option_name();
    const auto option = std::find_if(options_.begin(), options_.end(), [&](const Option& o) {
      return name == dashed(o.name) || name == o.name;
    });
    if (option != options_.end() && option->value_name.empty()) {
      throw BadInput(dashed(option->name) + " takes no value");
    }
    if (option != options_.end()) {
      throw BadInput(dashed(option->name) + " needs a value: " + dashed(option->name) + " " +
                     option->value_name);
    }
    throw BadInput(error.what());
  } catch (const po::error& error) {
    throw BadInput(error.what());
  }
  fill_positionals(words);
  check_rules(seen, words);
}

std::string OptionTable::usage() const {
  std::string text;
  for (const Positional& word : positionals_) {
    const std::string name = word.value_name + (word.repeats ? "..." : "");
    text += (text.empty() ? "" : " ") + (word.required ? name : "[" + name + "]");
  }
  return text + (text.empty() ? "" : " ") + "[options]";
}

std::string OptionTable::help() const {
  po::options_description description("", 100, 60);
  for (const Option& option : options_) {
    if (option.value_name.empty()) {
      description.add_options()(option.name.c_str(), option.doc.c_str());
    } else {
      description.add_options()(option.name.c_str(), po::value<std::string>()->value_name(option.value_name),
                                option.doc.c_str());
    }
  }
  std::ostringstream text;
  for (const Positional& word : positionals_) {
    text << "  " << word.value_name
         << std::string(word.value_name.size() < 20 ? 20 - word.value_name.size() : 1, ' ') << word.doc
         << "\n";
  }
  if (!positionals_.empty()) text << "\n";
  text << description;
  return text.str();
}

}  // namespace moetune
