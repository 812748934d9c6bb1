// A file that changes in one step.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace moetune {

enum class Durable { no, yes };  // yes: on the disk when it returns, also if the machine fails

// Written to a temporary file beside `path` (PATH.XXXXXX.tmp) and renamed, so that a reader never sees half of it.
// Throws BrokenEnvironment, and leaves what was there, if that cannot be done.
void replace_file(const std::filesystem::path& path, std::string_view bytes, Durable durable = Durable::no);

// PATH of a temporary file's name, which a process that was killed leaves; nullopt for any other name.
std::optional<std::string> replaced_by(std::string_view temporary);

// Removes the temporary files that killed processes left beside `path`: those that nobody has written to for an hour.
void remove_left_overs(const std::filesystem::path& path);

}  // namespace moetune
