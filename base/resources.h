// The files that travel inside the binary: templates/, spaces/ and replay/, embedded at build time so that
// one executable needs nothing beside it. MOETUNE_DATA_DIR, when set, names a folder with the same layout
// whose files are read instead (for working on templates without rebuilding).
//
// Thread-safe. The set of files grows by add_resource_folder() and add_resource() alone.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// The text (or bytes) of one file, by its path in the source tree: "templates/common/mma.cuh".
// nullopt if there is none. Throws BadInput for one that is no regular file, or that is outside MOETUNE_DATA_DIR.
std::optional<std::string> find_resource(std::string_view path);

// As above; throws BrokenEnvironment where there is none.
std::string read_resource(std::string_view path);

// The built-in file, whatever MOETUNE_DATA_DIR names: for files that users do not replace.
std::optional<std::string> find_embedded(std::string_view path);

// The paths that start with `prefix`, sorted.
std::vector<std::string> list_resources(std::string_view prefix);

// Adds the files of a folder as FOLDER_NAME/..., and one text as a file of that name, for the life of the process. They
// stand before files that are there already, so a caller chooses names that are free.
void add_resource_folder(const std::string& folder_name, const std::filesystem::path& folder);
void add_resource(const std::string& path, std::string text);

// Whether the file is of an added folder: a user's own.
bool is_added_file(std::string_view path);

// Whether the name alone leads out of the tree: it is absolute, or has a "..".
bool leaves_folder(std::string_view path);

}  // namespace moetune
