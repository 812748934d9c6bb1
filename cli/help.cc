#include "cli/help.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "base/environment.h"
#include "base/error.h"
#include "base/lists.h"
#include "cli/options.h"
#include "cli/text.h"
#include "kernels/registry.h"

namespace moetune {
namespace {

constexpr Described kExitCodes[] = {{"0", "done"},
                                    {"1", "nothing valid found"},
                                    {"2", "bad usage or input"},
                                    {"3", "broken environment"},
                                    {"4", "with --exit-code (retune: tuned or improved; compare: slower)"},
                                    {"130", "Ctrl-C"},
                                    {"143", "SIGTERM"}};

std::string exit_code_sentence() {
  const auto meaning = [](const Described& one) { return std::string(one.name) + " " + std::string(one.doc); };
  return "Exit codes: " + joined(kExitCodes, ", ", meaning) + ".";
}

std::string rows_text(const std::vector<std::pair<std::string, std::string>>& rows, std::size_t columns) {
  Table table({});
  for (const auto& [name, doc] : rows) table.add({name, doc});
  return table.text("  ", columns);
}

bool has_dimensions(const OptionTable& table) {
  return std::ranges::any_of(table.options(), &OptionTable::Option::is_dimension);
}

}  // namespace

void declare_all(Command& command, OptionTable& table, CommonOptions& common) {
  command.declare(table);
  table.text("kernels", "FOLDER", common.kernels,
             "a folder with kernels of your own, NAME/kernel.json; may be repeated");
  table.without_setting({"kernels"});
  table.flag("json", common.json, "one JSON document on stdout, and on stderr warnings and errors alone");
  table.flag("quiet", common.quiet, "on stderr warnings and errors alone");
  table.flag("wide", common.wide, "do not fit tables to the terminal; problems in full");
  table.word("color", "WHEN", common.color, {"auto", "always", "never"},
             "colours: auto (on a terminal), always or never");
  table.flag("no-config", common.no_config, "do not read ~/.config/moetune/config");
  table.flag("help", common.help, "this text");
  table.drop_hidden_dimensions();
}

void use_kernel_folders(const std::vector<std::string>& arguments) {
  namespace fs = std::filesystem;
  constexpr std::string_view kOption = "--kernels";
  std::vector<std::string> folders;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == kOption && i + 1 < arguments.size()) folders.push_back(arguments[++i]);
    if (word.starts_with(kOption) && word.substr(kOption.size()).starts_with("="))
      folders.push_back(word.substr(kOption.size() + 1));
  }
  std::error_code ignored;
  for (const std::string& folder : folders) {
    if (folder.find(':') != std::string::npos)
      throw BadInput("--kernels: a folder's name must not hold a colon ('" + folder + "')");
    if (!fs::is_directory(folder, ignored)) throw BadInput("--kernels: there is no folder '" + folder + "'");
  }
  if (const char* const others = environment_variable("MOETUNE_KERNELS")) folders.emplace_back(others);
  fs::directory_iterator here("kernels", ignored);
  const bool holds_kernels = std::any_of(fs::begin(here), fs::end(here), [&](const fs::directory_entry& one) {
    return fs::exists(one.path() / "kernel.json", ignored);
  });
  if (holds_kernels) folders.emplace_back("kernels");
  if (!folders.empty()) setenv("MOETUNE_KERNELS", joined(folders, ":").c_str(), 1);
}

std::span<const Described> exit_codes() { return kExitCodes; }

std::vector<std::pair<std::string, std::string>> option_rows(const OptionTable& table) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const OptionTable::Option& option : table.options()) {
    if (option.is_dimension) continue;
    rows.emplace_back("--" + option.name + (option.value_name.empty() ? "" : " " + option.value_name), option.doc);
    if (option.name == "preset" && has_dimensions(table))
      rows.emplace_back("--DIMENSION VALUE",
                        "any dimension of the kernel, beside --problem: --batch 16 --context 4096");
  }
  return rows;
}

std::vector<std::pair<std::string, std::string>> dimension_rows(const Kernel& kernel) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Dimension& dimension : kernel.schema()) {
    std::string values = joined(dimension.names);
    if (values.empty()) values = std::to_string(dimension.minimum) + ".." + std::to_string(dimension.maximum);
    rows.emplace_back("--" + dimension_option(dimension.name) + (dimension.names.empty() ? " N" : " NAME"),
                      dimension.doc + "; " + values + " (" + dimension.default_value.text() + ")");
  }
  return rows;
}

std::string tool_help(std::size_t columns) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& command : all_commands()) rows.emplace_back(command->name(), command->summary());
  return prose("moetune finds the fastest configuration of a CUDA kernel for a workload on a GPU, and keeps it.",
               columns) +
         "\nusage: moetune COMMAND [options]\n\n" + rows_text(rows, columns) + "\n" +
         prose(
             "moetune COMMAND --help explains one command, moetune COMMAND KERNEL --help with the kernel's "
             "dimensions; --version prints the version; moetune help environment lists the variables it reads. " +
                 exit_code_sentence(),
             columns) +
         "Start with: moetune search decode_attention --budget 200\n";
}

std::string command_help(Command& command, const std::vector<std::string>& arguments, std::size_t columns) {
  OptionTable table;
  CommonOptions common;
  declare_all(command, table, common);
  std::string text = prose(std::string(command.summary()) + ".", columns) + "\nusage: moetune " +
                     std::string(command.name()) + " " + table.usage() + "\n\n";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const OptionTable::Positional& word : table.positionals()) rows.emplace_back(word.value_name, word.doc);
  if (!rows.empty()) text += rows_text(rows, columns) + "\n";
  rows.clear();
  for (const Action& action : command.actions())
    rows.emplace_back(std::string(action.name) + (action.operands.empty() ? "" : " ") + std::string(action.operands),
                      action.doc);
  if (!rows.empty()) text += "Actions\n" + rows_text(rows, columns) + "\n";
  text += (rows.empty() ? "" : "Options\n") + rows_text(option_rows(table), columns);
  const auto named =
      std::ranges::find_if(arguments, [](const std::string& word) { return known_kernel(word) != nullptr; });
  if (named != arguments.end() && has_dimensions(table))
    text += "\nDimensions of " + *named + "\n" + rows_text(dimension_rows(find_kernel(*named)), columns);
  if (const std::string details = prose(std::string(command.details()), columns); !details.empty())
    text += "\n" + details;
  text.front() = static_cast<char>(std::toupper(text.front()));
  return text;
}

}  // namespace moetune
