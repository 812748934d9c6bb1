// Makes help, man pages and completion from the commands' own declarations.
//
// Functions of their arguments; they throw nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "kernels/kernel.h"

namespace moetune {

// Options that every command has.
struct CommonOptions {
  bool json = false, wide = false, quiet = false, help = false, no_config = false;
  std::string color = "auto";
  std::string kernels;  // read before all else: see use_kernel_folders()
};

// Makes the kernels of the folders known that the arguments name by --kernels, and of ./kernels if it holds some,
// beside those of MOETUNE_KERNELS. Call it before anybody asks for a kernel, while there is one thread. Throws BadInput
// for what is no folder.
void use_kernel_folders(const std::vector<std::string>& arguments);

// A command's own options, then those that every command has.
void declare_all(Command& command, OptionTable& table, CommonOptions& common);

struct Described {
  std::string_view name, doc;
};
std::span<const Described> exit_codes();             // "0", "done"
std::span<const Described> environment_variables();  // "MOETUNE_NVRTC", "the NVRTC library ..."

// Rows of a table: "--token-file FILE", "with --server: ...". Without the dimensions of kernels.
std::vector<std::pair<std::string, std::string>> option_rows(const OptionTable& table);
// The dimensions of a kernel as options: "--batch N", "sequences, 1..65535 (64)".
std::vector<std::pair<std::string, std::string>> dimension_rows(const Kernel& kernel);

// `columns` of the screen, 0 for no end.
std::string tool_help(std::size_t columns);
// `arguments` as they were given: of a kernel that they name the dimensions are listed too.
std::string command_help(Command& command, const std::vector<std::string>& arguments, std::size_t columns);

// In roff's man macros: of the tool if `command` is null.
std::string manual_page(Command* command);

// The words that may stand in place of the last of `words`, which follow the program's name: one a line, with a tab
// and a few words of explanation; ":files" and ":folders" stand for names of those.
std::string completions(const std::vector<std::string>& words);
// The script that makes a shell (bash, zsh, fish) ask for them. Throws BadInput for another shell.
std::string completion_script(const std::string& shell);

}  // namespace moetune
