#include "jobs/propose/command.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace moetune {
namespace {

constexpr std::string_view kPrefix = "external:";

// The base name of the program that a shell starts first, if nothing but its name can be meant by the first word: an
// assignment or a quoted word may hold a secret.
std::string program_name(std::string_view command) {
  const std::size_t begin = command.find_first_not_of(" \t\n");
  std::string_view word = command.substr(std::min(begin, command.size()));
  word = word.substr(0, word.find_first_of(" \t\n"));
  const bool is_plain = std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("._/+-").find(c) != std::string_view::npos;
  });
  word.remove_prefix(word.rfind('/') + 1);  // npos + 1 is 0
  return is_plain && !word.empty() ? shortened(word, 64) : "command";
}

}  // namespace

std::optional<ProposerCommand> take_proposer_command(std::string& strategy) {
  if (!strategy.starts_with(kPrefix)) return std::nullopt;
  std::string command = strategy.substr(kPrefix.size());
  if (command.find_first_not_of(" \t\n") == std::string::npos)
    throw BadField("strategy", "external: needs the command of a program, as in external:./propose.py");
  const std::string name = program_name(command);
  strategy = std::string(kPrefix) + name;
  return ProposerCommand{name, std::move(command)};
}

}  // namespace moetune
