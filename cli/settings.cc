#include "cli/settings.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdlib>
#include <sstream>

#include "base/environment.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "base/suggest.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr std::size_t kMostBytes = 1 << 20;

// Relative paths in XDG variables do not count (the XDG base directory specification).
std::optional<fs::path> folder_of(const char* variable) {
  const char* const value = environment_variable(variable);
  if (value == nullptr || *value != '/') return std::nullopt;
  return value;
}

std::string with_home(const std::string& value) {
  const std::optional<fs::path> home = folder_of("HOME");
  return home && value.starts_with("~/") ? (*home / value.substr(2)).string() : value;
}

std::string trimmed(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t\r");
  return first == std::string::npos ? "" : line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
}

[[noreturn]] void throw_unknown(const std::string& where, const std::string& name) {
  if (name == "token")
    throw BadInput(where + "token: a token lies in a file that only you may read; name it by token-file = FILE");
  throw BadInput(where + unknown_name("setting", name, {std::begin(kSettingNames), std::end(kSettingNames)}));
}

// One line, which holds a setting. Boost names no line, so it gets them one by one.
Setting read_line(const std::string& line, const std::string& file, const std::string& where) {
  std::istringstream stream(line);
  try {
    const po::parsed_options parsed = po::parse_config_file(stream, po::options_description(), true);
    if (parsed.options.size() != 1 || parsed.options.front().value.size() != 1)
      throw BadInput(where + "'" + line + "' is no setting; write NAME = VALUE");
    const std::string name = parsed.options.front().string_key, value = parsed.options.front().value.front();
    if (std::ranges::find(kSettingNames, name) == std::end(kSettingNames)) throw_unknown(where, name);
    if (value.empty()) throw BadInput(where + name + " has no value; write " + name + " = VALUE");
    return {name, with_home(value), file};
  } catch (const po::error&) {
    throw BadInput(where + "'" + line + "' is no setting; write NAME = VALUE");
  }
}

}  // namespace

std::optional<fs::path> settings_path() {
  if (const auto folder = folder_of("XDG_CONFIG_HOME")) return *folder / "moetune" / "config";
  if (const auto home = folder_of("HOME")) return *home / ".config" / "moetune" / "config";
  return std::nullopt;
}

std::vector<Setting> read_settings() {
  std::vector<Setting> settings;
  const std::optional<fs::path> path = settings_path();
  const std::optional<std::string> text = path ? find_regular_file(*path, kMostBytes) : std::nullopt;
  if (!text) return settings;
  std::istringstream lines(*text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string where = path->string() + ":" + std::to_string(++number) + ": ";
    if (number == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // a byte order mark
    const std::string words = trimmed(line);
    if (!words.empty() && words.front() != '#') settings.push_back(read_line(words, path->string(), where));
  }
  return settings;
}

}  // namespace moetune
