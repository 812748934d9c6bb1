#include "serve/api/token_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/error.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

constexpr std::size_t kMostTokenBytes = 64 << 10;

}  // namespace

std::vector<NamedToken> read_token_file(const std::filesystem::path& file) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0)
    throw BadInput("cannot look at " + file.string() + ": " + std::strerror(errno));
  std::istringstream lines(read_regular_file(file, kMostTokenBytes));
  if ((status.st_mode & 0077) != 0)
    throw BadInput(file.string() + " can be read by others, and a token is its owner's alone: chmod 600 " +
                   file.string());
  std::vector<NamedToken> tokens;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream words(line);
    NamedToken one{.line = number};
    std::string first, second, more;
    words >> first >> second >> more;
    one.role = second.empty() ? "" : first;
    one.token = second.empty() ? first : second;
    const bool is_sound = more.empty() && !one.token.empty() && !line.ends_with('\r') &&
                          std::all_of(one.token.begin(), one.token.end(), [](char c) { return c > ' ' && c < 0x7F; });
    if (!is_sound)
      throw BadInput(file.string() + " line " + std::to_string(number) +
                     " is no 'TOKEN' or 'read TOKEN', 'miss TOKEN', 'submit TOKEN'");
    tokens.push_back(std::move(one));
  }
  if (tokens.empty()) throw BadInput(file.string() + " has no token");
  return tokens;
}

}  // namespace moetune
