// Token files, of a service and of its clients: a line "ROLE TOKEN" or "TOKEN" each, "#" before what is not read. Only
// its owner may read one. A pure function; thread-safe. Errors: BadInput that names the file, and the line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moetune {

struct NamedToken {
  std::string role;  // "" if the line has none
  std::string token;
  int line = 0;
};

// At least one.
std::vector<NamedToken> read_token_file(const std::filesystem::path& file);

// A client's: the first of its file, whatever its role.
inline std::string read_client_token(const std::filesystem::path& file) { return read_token_file(file).front().token; }

}  // namespace moetune
