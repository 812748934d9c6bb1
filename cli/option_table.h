// The options of one command: declared with the variable each one fills, then parsed. Unknown options, values
// of the wrong kind and superfluous words throw BadInput, with the nearest name where one is near.
//
// The variables must outlive parse(). The only home of Boost.Program_options. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

class OptionTable {
 public:
  void flag(std::string_view name, bool& target, std::string_view doc);
  void text(std::string_view name, std::string_view value_name, std::string& target, std::string_view doc);
  void text(std::string_view name, std::string_view value_name, std::optional<std::string>& target,
            std::string_view doc);
  void whole(std::string_view name, std::uint64_t& target, std::uint64_t minimum, std::uint64_t maximum,
             std::string_view doc);
  // A number greater than zero; `unit` says of what: "number of seconds".
  void positive(std::string_view name, std::string_view value_name, std::string_view unit, double& target,
                std::string_view doc);
  // "2" or "2%": above 0 and at most 100.
  void percent(std::string_view name, double& target, std::string_view doc);
  // "90", "90s", "5m" or "1h".
  void seconds(std::string_view name, double& target, std::string_view doc);
  // A word without a dash, in order of declaration: "KERNEL". A required one that is missing is an error.
  // Of an optional target an empty word is one that was given.
  void positional(std::string_view value_name, std::string& target, bool required, std::string_view doc);
  void positional(std::string_view value_name, std::optional<std::string>& target, bool required,
                  std::string_view doc);
  // All further words. At most one, declared last.
  void words(std::string_view value_name, std::vector<std::string>& target, std::string_view doc);

  // Options that mean nothing without the option `other`: to give one alone is an error.
  void only_with(std::string_view other, std::initializer_list<std::string_view> options);
  // Options that mean nothing unless the first word is `word`.
  void only_after(std::string_view word, std::initializer_list<std::string_view> options);

  void parse(const std::vector<std::string>& arguments);

  std::string usage() const;  // "KERNEL [--budget N] ..." shortened to "KERNEL [options]"
  std::string help() const;   // the options, one a line

 private:
  struct Option {
    std::string name;
    std::string value_name;  // empty for a flag
    std::string doc;
    std::function<void(const std::string& value)> set;
  };
  struct Positional {
    std::string value_name;
    std::string doc;
    bool required = false;
    bool repeats = false;
    std::function<void(const std::string& word)> set;
  };

  struct Rule {
    std::string option, needed;
    bool needs_word;  // as the first word, else as another option
  };

  [[noreturn]] void unknown(const std::string& written) const;
  void check_rules(const std::set<std::string>& given, const std::vector<std::string>& words) const;
  void fill_positionals(const std::vector<std::string>& words);

  std::vector<Option> options_;
  std::vector<Positional> positionals_;
  std::vector<Rule> rules_;
};

}  // namespace moetune
