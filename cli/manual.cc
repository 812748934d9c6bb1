// Man pages out of the declarations of the commands.
#include <algorithm>

#include "base/version.h"
#include "cli/help.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

// As groff reads it: no character of its own meaning, no line that begins a request, and ASCII.
std::string roff(std::string_view text) {
  std::string page;
  bool starts_line = true;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (starts_line && (byte == '.' || byte == '\'')) page += "\\&";
    starts_line = byte == '\n';
    if (byte < 0x80) {
      page += byte == '\\' ? "\\e" : byte == '-' ? "\\-" : std::string(1, static_cast<char>(byte));
      ++at;
      continue;
    }
    const int more = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : 1;
    unsigned code = byte & (0x3F >> more);
    for (int i = 1; i <= more && at + static_cast<std::size_t>(i) < text.size(); ++i)
      code = code << 6 | (static_cast<unsigned char>(text[at + static_cast<std::size_t>(i)]) & 0x3F);
    char name[16];
    std::snprintf(name, sizeof name, "\\[u%04X]", code);
    page += name;
    at = std::min(at + static_cast<std::size_t>(more) + 1, text.size());
  }
  return page;
}

std::string section(std::string_view title) { return ".SH " + std::string(title) + "\n"; }

std::string entry(std::string_view name, std::string_view doc) {
  return ".TP\n.B " + roff(name) + "\n" + roff(doc) + "\n";
}

std::string entries(std::span<const Described> all) {
  std::string page;
  for (const auto& [name, doc] : all) page += entry(name, doc);
  return page;
}

std::string entries(const std::vector<std::pair<std::string, std::string>>& all) {
  std::string page;
  for (const auto& [name, doc] : all) page += entry(name, doc);
  return page;
}

std::string heading(const std::string& name, std::string_view summary) {
  return ".TH " + roff(name) + " 1 \"\" \"moetune " + std::string(version()) + "\" \"User Commands\"\n" +
         section("NAME") + roff(name) + " \\- " + roff(summary) + "\n";
}

std::string see_also(const Command* apart) {
  std::string page = section("SEE ALSO");
  std::string names = apart == nullptr ? "" : ".BR moetune (1)";
  for (const auto& command : all_commands()) {
    if (apart != nullptr && command->name() == apart->name()) continue;
    names += std::string(names.empty() ? "" : ",\n") + ".BR moetune\\-" + roff(command->name()) + " (1)";
  }
  return page + names + "\n";
}

std::string tool_page() {
  std::string page = heading("moetune", "finds the fastest configuration of a CUDA kernel for a workload on a GPU");
  page += section("SYNOPSIS") + ".B moetune\n.I COMMAND\n[options]\n" + section("COMMANDS");
  for (const auto& command : all_commands()) page += entry(command->name(), command->summary());
  page += section("EXIT STATUS") + entries(exit_codes()) + section("ENVIRONMENT") + entries(environment_variables());
  page += section("FILES") +
          entry("~/.config/moetune/config",
                "lines NAME = VALUE that stand for options: cache, server, token-file, ca-file, device, threads") +
          entry("~/.cache/moetune/moetune.db", "the cache");
  return page + see_also(nullptr);
}

std::string command_page(Command& command) {
  OptionTable table;
  CommonOptions common;
  declare_all(command, table, common);
  std::string page = heading("moetune-" + std::string(command.name()), command.summary());
  page += section("SYNOPSIS") + ".B moetune " + roff(command.name()) + "\n" + roff(table.usage()) + "\n";
  page += section("DESCRIPTION");
  for (const OptionTable::Positional& word : table.positionals()) page += entry(word.value_name, word.doc);
  std::string details(command.details());
  std::replace(details.begin(), details.end(), '\n', ' ');
  details.erase(details.find_last_not_of(' ') + 1);
  if (!details.empty()) page += ".PP\n" + roff(details) + "\n";
  if (const std::vector<Action> actions = command.actions(); !actions.empty()) {
    page += section("ACTIONS");
    for (const Action& action : actions)
      page += entry(std::string(action.name) + (action.operands.empty() ? "" : " ") + std::string(action.operands),
                    action.doc);
  }
  page += section("OPTIONS") + entries(option_rows(table));
  const bool has_shape = std::ranges::any_of(table.options(), &OptionTable::Option::is_dimension);
  for (const Kernel* const kernel : has_shape ? all_kernels() : std::vector<const Kernel*>())
    page += ".SS " + roff("Dimensions of " + kernel->name()) + "\n" + entries(dimension_rows(*kernel));
  return page + section("EXIT STATUS") + entries(exit_codes()) + see_also(&command);
}

}  // namespace

std::string manual_page(Command* command) { return command == nullptr ? tool_page() : command_page(*command); }

}  // namespace moetune
