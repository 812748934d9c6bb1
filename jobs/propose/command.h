// The command of a program that suggests configurations, and what came of it. Plain data.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace moetune {

struct ProposerCommand {
  std::string name;     // for provenance and messages: nothing else of the command is ever kept
  std::string command;  // as /bin/sh takes it
};

// `strategy` may be "external:COMMAND": it is then replaced by "external:NAME". The name is the base name of the
// program, if that is the command's plain first word, else "command". Throws BadField for an empty command.
std::optional<ProposerCommand> take_proposer_command(std::string& strategy);

// A proposer's part in a search.
struct ProposerReport {
  std::string name;
  std::size_t suggested = 0;  // configurations that the search took
  std::size_t rejected = 0;
  std::size_t variants = 0;  // trials of whole sources, beside the budget
  bool done = false;
  std::string why_left_out;  // "exited with status 1"; "" if it was not
};

}  // namespace moetune
