// Lists the words that may stand in place of the last word of a command line.
#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "cache/cache.h"
#include "cli/help.h"
#include "cli/options.h"
#include "jobs/session/kernel_files.h"
#include "jobs/session/stores.h"
#include "kernels/kernel_space.h"
#include "kernels/registry.h"
#include "replay/shipped.h"

namespace moetune {
namespace {

constexpr std::size_t kMostKeys = 500;

using Candidates = std::vector<std::pair<std::string, std::string>>;

// The meaning of the words before the last one.
struct Line {
  std::string command, current;      // the last word, or what stands behind its "--option="
  std::string before;                // that
  std::vector<std::string> words;    // without a dash, behind the command
  std::optional<std::string> value;  // the option whose value `current` is
  CacheChoice cache;

  const Kernel* kernel() const {
    const auto named =
        std::ranges::find_if(words, [](const std::string& word) { return known_kernel(word) != nullptr; });
    return named == words.end() ? nullptr : known_kernel(*named);
  }
};

Line read_line(const std::vector<std::string>& all, const OptionTable& table) {
  Line line{.command = all.front(), .current = all.back()};
  const auto known = [&](const std::string& word) -> const OptionTable::Option* {
    const auto found = std::ranges::find_if(
        table.options(), [&](const OptionTable::Option& option) { return "--" + option.name == word; });
    return found == table.options().end() ? nullptr : &*found;
  };
  const OptionTable::Option* open = nullptr;  // the option whose value comes next
  for (std::size_t i = 1; i + 1 < all.size(); ++i) {
    const std::string name = all[i].substr(0, all[i].find('='));
    const bool is_joined = name.size() < all[i].size();
    if (open != nullptr) {
      if (open->name == "cache") line.cache.path = all[i];
      open = nullptr;
    } else if (const OptionTable::Option* const option = known(name)) {
      if (is_joined && option->name == "cache") line.cache.path = all[i].substr(name.size() + 1);
      if (!is_joined && !option->value_name.empty()) open = option;
    } else if (!all[i].starts_with("-")) {
      line.words.push_back(all[i]);
    }
  }
  const std::size_t equals = line.current.find('=');
  if (open == nullptr && line.current.starts_with("--") && equals != std::string::npos) {
    open = known(line.current.substr(0, equals));
    line.before = line.current.substr(0, equals + 1);
    line.current.erase(0, equals + 1);
  }
  if (open != nullptr) line.value = open->name;
  return line;
}

Candidates kernels(const Line&) {
  Candidates found;
  for (const Kernel* const kernel : all_kernels()) found.emplace_back(kernel->name(), kernel->summary());
  return found;
}

Candidates presets(const Line& line) {
  Candidates found;
  for (const Kernel* const kernel : all_kernels()) {
    if (line.kernel() != nullptr && line.kernel() != kernel) continue;
    for (const Preset& preset : kernel->presets()) {
      if (std::ranges::find(found, preset.name, [](const auto& one) { return one.first; }) == found.end())
        found.emplace_back(preset.name, preset.doc);
    }
  }
  return found;
}

// NAME=VALUE parts with commas: a name of the list, or a value of the one that stands there.
Candidates assignments(const Line& line, const std::map<std::string, std::vector<std::string>>& names) {
  const std::size_t part = line.current.rfind(',') + 1;  // npos + 1 is 0
  const std::string before = line.current.substr(0, part), last = line.current.substr(part);
  Candidates found;
  if (const std::size_t equals = last.find('='); equals != std::string::npos) {
    const auto known = names.find(last.substr(0, equals));
    if (known == names.end()) return found;
    for (const std::string& value : known->second) found.emplace_back(before + last.substr(0, equals + 1) + value, "");
    return found;
  }
  for (const auto& [name, values] : names) {
    if (("," + before).find("," + name + "=") == std::string::npos) found.emplace_back(before + name + "=", "");
  }
  return found;
}

Candidates dimensions(const Line& line) {
  std::map<std::string, std::vector<std::string>> names;
  for (const Kernel* const kernel : all_kernels()) {
    if (line.kernel() != nullptr && line.kernel() != kernel) continue;
    for (const Dimension& dimension : kernel->schema()) names[dimension.name] = dimension.names;
  }
  return assignments(line, names);
}

Candidates configurations(const Line& line) {
  if (line.kernel() == nullptr) return {};
  std::map<std::string, std::vector<std::string>> names;
  const Space space = load_space(line.kernel()->name());
  for (const Parameter& parameter : space.parameters()) {
    for (const Value& value : parameter.values) names[parameter.name].push_back(value.text());
  }
  return assignments(line, names);
}

Candidates devices(const Line&) {
  Candidates found = {{"auto", "an idle GPU"}, {"cuda:0", "the first GPU"}};
  for (const ShippedRecording& one : list_shipped_recordings())
    found.emplace_back("replay:" + one.name(), "recorded " + one.header.kernel);
  return found;
}

Candidates keys(const Line& line) {
  Candidates found;
  const std::unique_ptr<Cache> cache = open_existing_cache(line.cache);
  if (cache == nullptr) return found;
  for (const Workload& workload : cache->workloads.all()) {
    if (found.size() == kMostKeys) break;
    const WorkloadKey& key = workload.key;
    found.emplace_back(std::to_string(workload.id),
                       key.kernel + " " + brief_problem(key.kernel, key.problem) + " on " + key.hardware.name);
  }
  const bool takes_tables =
      !line.words.empty() && (line.words.front() == "history" || line.words.front() == "rollback");
  for (const FamilyRange& range : takes_tables ? cache->ranges.read() : std::vector<FamilyRange>())
    found.emplace_back("table:" + std::to_string(range.id), range.key.kernel + " " + range.key.family);
  return found;
}

Candidates files(const Line&) { return {{":files", ""}}; }
Candidates folders(const Line&) { return {{":folders", ""}}; }

// By what an option or a word calls its value.
struct Completer {
  std::string_view value_name;
  Candidates (*candidates)(const Line&);
};
constexpr Completer kCompleters[] = {
    {"KERNEL", kernels}, {"PRESET", presets},  {"DIMS", dimensions}, {"RANGES", dimensions}, {"CONFIG", configurations},
    {"DEVICE", devices}, {"DEVICES", devices}, {"KEY", keys},        {"FILE", files},        {"FILE...", files},
    {"PACK", files},     {"[PACK]", files},    {"INTO", files},      {"A", files},           {"B", files},
    {"MODEL", files},    {"PATH", files},      {"DIR", folders},     {"FOLDER", folders}};

Candidates values_of(std::string_view value_name, const Line& line) {
  for (const Completer& one : kCompleters) {
    if (one.value_name == value_name) return one.candidates(line);
  }
  return {};
}

Candidates option_values(const OptionTable& table, const Line& line) {
  const OptionTable::Option& option = *std::ranges::find(table.options(), *line.value, &OptionTable::Option::name);
  Candidates found;
  for (const std::string& choice : option.choices) found.emplace_back(choice, "");
  if (option.is_dimension && line.kernel() != nullptr) {
    for (const Dimension& dimension : line.kernel()->schema()) {
      if (dimension_option(dimension.name) != option.name) continue;
      for (const std::string& name : dimension.names) found.emplace_back(name, "");
    }
  }
  return found.empty() ? values_of(option.value_name, line) : found;
}

Candidates options(const OptionTable& table, const Line& line) {
  Candidates found;
  const std::string first = line.words.empty() ? "" : line.words.front();
  for (const OptionTable::Option& option : table.options()) {
    if (!option.is_dimension && (first.empty() || table.fits_after(option.name, first)))
      found.emplace_back("--" + option.name, option.doc);
  }
  const bool has_shape = std::ranges::any_of(table.options(), &OptionTable::Option::is_dimension);
  if (has_shape && line.kernel() != nullptr) {
    for (const auto& [name, doc] : dimension_rows(*line.kernel()))
      found.emplace_back(name.substr(0, name.find(' ')), doc);
  }
  return found;
}

// The n-th of the words that follow an action or a command.
Candidates operands(const Command& command, const OptionTable& table, const Line& line) {
  const std::vector<Action> actions = command.actions();
  const std::size_t place = line.words.size();
  Candidates found;
  if (!actions.empty() && place == 0) {
    for (const Action& action : actions) found.emplace_back(action.name, action.doc);
    return found;
  }
  std::string names;  // with a space behind each
  if (actions.empty()) {
    for (const OptionTable::Positional& word : table.positionals()) names += word.value_name + " ";
  } else {
    const auto action = std::ranges::find(actions, line.words.front(), &Action::name);
    if (action != actions.end()) names = "ACTION " + std::string(action->operands) + " ";
  }
  std::string name;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= place && begin < names.size(); ++i) {
    const std::size_t end = names.find(' ', begin);
    name = names.substr(begin, end - begin);
    if (i < place && name.ends_with("...")) break;  // it stands for all that follow
    if (i == place) break;
    name.clear();
    begin = end + 1;
  }
  return values_of(name, line);
}

Candidates candidates(const std::vector<std::string>& words) {
  Candidates found;
  std::unique_ptr<Command> command;
  for (auto& one : all_commands()) {
    if (words.size() < 2 || (words.size() == 2 && words[0] == "help"))
      found.emplace_back(one->name(), one->summary());
    else if (one->name() == words[0])
      command = std::move(one);
  }
  if (words.size() < 2) {
    for (const auto& [name, doc] : std::initializer_list<std::pair<const char*, const char*>>{
             {"help", "explain a command"}, {"--help", ""}, {"--version", ""}})
      found.emplace_back(name, doc);
  }
  if (words.size() == 2 && words[0] == "help") found.emplace_back("environment", "the variables that are read");
  if (command == nullptr) return found;
  OptionTable table;
  CommonOptions common;
  declare_all(*command, table, common);
  Line line = read_line(words, table);
  for (const Setting& setting : read_settings()) {
    if (setting.name == "cache") line.cache.usual = setting.value;
  }
  if (!line.value && line.current.starts_with("-")) return options(table, line);
  found = line.value ? option_values(table, line) : operands(*command, table, line);
  for (auto& [text, doc] : found) {
    if (!text.starts_with(":")) text.insert(0, line.before);
  }
  return found;
}

}  // namespace

std::string completions(const std::vector<std::string>& words) {
  const std::vector<std::string> line = words.empty() ? std::vector<std::string>{""} : words;
  std::string text;
  try {
    for (auto [word, doc] : candidates(line)) {
      if (!word.starts_with(":") && !word.starts_with(line.back())) continue;
      std::ranges::replace_if(
          doc, [](char c) { return c == '\n' || c == '\t'; }, ' ');
      text += word + (word.starts_with(":") ? "" : "\t" + doc) + "\n";
    }
  } catch (const std::exception&) {  // such as a damaged cache, which the command itself will report
  }
  return text;
}

}  // namespace moetune
