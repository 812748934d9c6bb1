// A template and the headers it includes, as text: what NVRTC is handed and what digests are taken over.
//
// Headers are included by their path from the top of the source tree ("templates/common/mma.cuh"), the same
// name in every file. The scan is textual: an #include counts even in a branch that the preprocessor skips,
// so a digest covers every file a build could depend on. Pure functions; as thread-safe as the reader given.
//
// A user's own source (is_added_file) may also include files of its folder, by their names there, and a CUDA toolkit's
// headers in angle brackets. Then the host's headers (stdint.h, cmath) come along, as templates/common/host_headers.cuh
// has them. It is read as its owner's: comments, strings and what stands in `#if 0` are no includes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

// Reads template text: path in the source tree -> text. Empty: the resources in the binary are used.
using SourceReader = std::function<std::optional<std::string>(const std::string& path)>;

struct SourceFile {
  std::string path;
  std::string text;
  bool operator==(const SourceFile&) const = default;
};

// The names in `#include "..."` lines, comments aside, in order of appearance.
std::vector<std::string> quoted_includes(std::string_view text);

// The file at `path` first, then every file it includes, transitively, sorted by path. A header the reader
// lacks is left out: the compiler's own message about it is the best there is. Throws BrokenEnvironment if `path`
// itself is missing, and BadInput for an include that could reach another file: by an absolute name, through
// "..", in angle brackets, of a macro, __has_include.
std::vector<SourceFile> collect_sources(const std::string& path, const SourceReader& reader = {});

// Whether the source, one of a user's own, includes headers in angle brackets, or others that are none of the files.
bool includes_toolkit(const std::vector<SourceFile>& files);

// The functions that are marked __global__ in a text, in order of appearance: what its entries may be.
std::vector<std::string> global_functions(std::string_view text);

// Digest of a source file and, transitively, every file it includes: the template's part of a workload's
// `source_digest`.
std::string source_digest(const std::string& path, const SourceReader& reader = {});

}  // namespace moetune
