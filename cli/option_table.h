// The options of one command: declared with the variable each one fills, then parsed. The one description of them:
// help, completion and man pages are made of options(), positionals() and rules. Unknown options, values of the wrong
// kind and superfluous words throw BadInput, with the nearest name if there is one. If an option
// is given twice, the later one holds.
//
// The variables must outlive parse(). The only home of Boost.Program_options, with cli/settings.cc. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/settings.h"

namespace moetune {

class OptionTable {
 public:
  struct Option {
    std::string name;        // "token-file"
    std::string value_name;  // empty for a flag; what completes it follows from it (cli/completion.cc)
    std::string doc;         // with the default
    std::function<void(const std::string& value)> set;
    std::vector<std::string> choices = {};                 // all values, if there are few
    bool is_dimension = false;                             // of a kernel's shape: listed by kernel
    bool takes_setting = true;                             // of the user's configuration
    std::function<void(const std::string&)> setting = {};  // what takes that, if not `set`
  };
  struct Positional {
    std::string value_name;
    std::string doc;
    bool required = false;
    bool repeats = false;
    std::function<void(const std::string& word)> set;
  };

  void add(Option option) { options_.push_back(std::move(option)); }
  void flag(std::string_view name, bool& target, std::string_view doc);
  void text(std::string_view name, std::string_view value_name, std::string& target, std::string_view doc);
  void text(std::string_view name, std::string_view value_name, std::optional<std::string>& target,
            std::string_view doc);
  // One of a few words. choices(): the same of an option whose value is checked elsewhere.
  void word(std::string_view name, std::string_view value_name, std::string& target, std::vector<std::string> choices,
            std::string_view doc);
  void whole(std::string_view name, std::uint64_t& target, std::uint64_t minimum, std::uint64_t maximum,
             std::string_view doc);
  // A number greater than zero; `unit` says of what: "number of MiB".
  void positive(std::string_view name, std::string_view value_name, std::string_view unit, double& target,
                std::string_view doc);
  // "2" or "2%": above 0 and at most 100.
  void percent(std::string_view name, double& target, std::string_view doc);
  // A span of time (base/duration.h), in seconds. Without a default, which is 0, it is above 0; whole seconds are
  // rounded up, and may be 0.
  void span(std::string_view name, double& target, std::string_view doc);
  void span(std::string_view name, std::uint64_t& target, std::string_view doc);
  // A word without a dash, in order of declaration: "KERNEL". A required one that is missing is an error.
  // For an optional target, an empty word counts as given.
  void positional(std::string_view value_name, std::string& target, bool required, std::string_view doc);
  void positional(std::string_view value_name, std::optional<std::string>& target, bool required, std::string_view doc);
  // All further words. At most one, declared last.
  void words(std::string_view value_name, std::vector<std::string>& target, std::string_view doc);

  // Options that mean nothing without the option `other`: to give one alone is an error.
  void only_with(std::string_view other, std::initializer_list<std::string_view> options);
  // Options that mean nothing unless the first word is one of `words`.
  void only_after(std::initializer_list<std::string_view> words, std::initializer_list<std::string_view> options);
  // Options that leave no room for the user's setting of `option`, which in turn leaves none for theirs.
  void at_odds(std::string_view option, std::initializer_list<std::string_view> others);
  void choices(std::string_view option, std::vector<std::string> values);
  // Forgets dimensions that have the name of another option.
  void drop_hidden_dimensions();
  // Options that are no matter of the user's configuration.
  void without_setting(std::initializer_list<std::string_view> options);
  // The user's setting of an option goes to another variable.
  void setting(std::string_view option, std::string& target);

  // Positional words first, then settings for options that were not given, then options in their order.
  void parse(const std::vector<std::string>& arguments, const std::vector<Setting>& settings = {});

  // The configuration file that the option's value comes from; "" if it comes from elsewhere.
  std::string source_of(const std::string& option) const;

  std::string usage() const;  // "KERNEL [options]"
  const std::vector<Option>& options() const { return options_; }
  const std::vector<Positional>& positionals() const { return positionals_; }
  // Whether an option may stand behind that first word.
  bool fits_after(const std::string& option, const std::string& word) const;

 private:
  struct Rule {
    std::string option, needed;      // the other option
    std::vector<std::string> words;  // or these first words
  };
  struct Item {
    const Option* option;
    std::string value;
  };

  Option& find(std::string_view name);
  std::vector<Item> split(const std::vector<std::string>& arguments, std::vector<std::string>& words) const;
  [[noreturn]] void unknown(const std::string& written) const;
  void check_rules(const std::set<std::string>& given, const std::vector<std::string>& words) const;
  void fill_positionals(const std::vector<std::string>& words) const;
  void take_settings(const std::vector<Setting>& settings, const std::set<std::string>& given,
                     const std::vector<std::string>& words);

  std::vector<Option> options_;
  std::vector<Positional> positionals_;
  std::vector<Rule> rules_;
  std::vector<std::pair<std::string, std::string>> odds_;
  std::map<std::string, std::string> sources_;
};

}  // namespace moetune
