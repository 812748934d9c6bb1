// The whole tool except for main(): finds the command, parses its options, runs it, and turns what happens into
// messages and an exit code.
#pragma once

#include <string>
#include <vector>

namespace moetune {

// `arguments` without the program's name. Returns the process's exit code.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace moetune
