// The user's configuration, $XDG_CONFIG_HOME/moetune/config or ~/.config/moetune/config: lines NAME = VALUE that stand
// for options which are not given, "#" before what is not read. Plain values; functions of the environment and the
// file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// Options that may be set there.
inline constexpr std::string_view kSettingNames[] = {"cache", "server", "token-file", "ca-file", "device", "threads"};

struct Setting {
  std::string name, value;
  std::string file;  // where it stands
};

// nullopt where no variable says where home is.
std::optional<std::filesystem::path> settings_path();

// In the order of the file, "~/" at the beginning of a value replaced; none if there is no file. Throws BadInput that
// names the file and, where it can, the line.
std::vector<Setting> read_settings();

}  // namespace moetune
