#include "tuner/compile/sources.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/lists.h"
#include "base/resources.h"

namespace moetune {
namespace {

// Comments become blanks, so that an #include inside one is not seen; string literals are left alone, so that a "//"
// inside one is not a comment.
std::string without_comments(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t end = text.find("*/", i + 2);
      i = end == std::string_view::npos ? text.size() : end + 2;
      out += ' ';
    } else if (text[i] == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"' && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      out += text.substr(i, end - i);
      i = end;
    } else {
      out += text[i++];
    }
  }
  return out;
}

std::string_view skip_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string without_line_splices(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t after = text[i] == '\\' ? text.find_first_not_of(" \t\r", i + 1) : std::string_view::npos;
    if (after != std::string_view::npos && text[after] == '\n') {
      i = after;
    } else {
      out += text[i];
    }
  }
  return out;
}

// The text behind blanks and closed comments.
std::string_view skip_between(std::string_view text) {
  for (;;) {
    text = skip_blanks(text);
    const std::size_t end = text.starts_with("/*") ? text.find("*/", 2) : std::string_view::npos;
    if (end == std::string_view::npos) return text;
    text = text.substr(end + 2);
  }
}

[[noreturn]] void refuse_include(const std::string& path, std::string_view directive, bool own = false) {
  const std::string shown(directive.substr(0, std::min<std::size_t>(directive.find('\n'), 80)));
  throw BadInput(path + ": '" + shown + "': an include names " +
                 (own ? "a file of the kernel's folder, in quotes, or a header of CUDA, as <cuda_fp16.h>"
                      : "a file of the templates, in quotes"));
}

// The host's headers that a source for nvcc includes, in C, and those of C++ that cuda/std has under the same name.
constexpr const char* kHostHeaders[] = {"assert.h", "cuda.h",   "float.h", "limits.h", "math.h",
                                        "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"};
constexpr const char* kStandardHeaders[] = {"array",   "cassert", "cfloat",      "climits", "cmath",
                                            "cstddef", "cstdint", "cstdio",      "cstdlib", "cstring",
                                            "limits",  "tuple",   "type_traits", "utility"};

void add_host_headers(std::vector<SourceFile>& files) {
  const std::string text = read_resource("templates/common/host_headers.cuh");
  for (const char* const name : kHostHeaders) files.push_back({name, text});
  for (const std::string name : kStandardHeaders)
    files.push_back({name, text + "#if __has_include(<cuda/std/" + name + ">)\n#include <cuda/std/" + name +
                               ">\nnamespace std {\nusing namespace cuda::std;\n}\n#endif\n"});
}

// NVRTC opens whatever file an include names: absolute ones, in angle brackets, of a macro. The scan knows neither
// strings nor comments and so sees more than the preprocessor: nothing can hide an include from it.
void require_own_includes(const std::string& path, std::string_view text, bool may_use_toolkit = false) {
  const std::string code = without_line_splices(text);
  for (const std::string_view asking : {"__has_include", "__has_embed"}) {
    if (code.find(asking) != std::string::npos) refuse_include(path, asking, may_use_toolkit);
  }
  const std::string_view all = code;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t mark = all[i] == '#' ? 1 : all.substr(i, 2) == "%:" ? 2 : 0;
    const std::string_view word = skip_between(mark > 0 ? all.substr(i + mark) : std::string_view());
    const bool opens = word.starts_with("include") || word.starts_with("import") || word.starts_with("embed");
    if (!opens) continue;
    const std::string_view name = word.starts_with("include") ? skip_between(word.substr(7)) : std::string_view();
    if (may_use_toolkit && name.starts_with('<') && !leaves_folder(name.substr(1, name.find('>') - 1))) continue;
    const std::size_t end = name.starts_with('"') ? name.find_first_of("\"\n", 1) : std::string_view::npos;
    if (end == std::string_view::npos || name[end] == '\n') refuse_include(path, all.substr(i), may_use_toolkit);
    if (leaves_folder(name.substr(1, end - 1)))
      throw BadInput(path + ": #include " + std::string(name.substr(0, end + 1)) + " leads out of the templates");
  }
}

// "if" and "0" of "# if 0"; two empty texts of a line that is no directive.
std::pair<std::string_view, std::string_view> directive_of(std::string_view line) {
  line = skip_blanks(line);
  if (!line.starts_with('#')) return {};
  line = skip_blanks(line.substr(1));
  const std::size_t end = std::min(line.find_first_not_of("abcdefghijklmnopqrstuvwxyz"), line.size());
  const std::string_view rest = skip_blanks(line.substr(end));
  return {line.substr(0, end), rest.substr(0, rest.find_last_not_of(" \t\r") + 1)};
}

// The text without comments, without literals that are no include's, and without what stands in `#if 0`.
std::string active_text(std::string_view text) {
  const std::string code = without_comments(without_line_splices(text));
  std::string active;
  int skipped = 0;  // how deep a line lies in what is skipped
  for (const std::string_view line : split(code, '\n')) {
    const auto [word, condition] = directive_of(line);
    if (skipped > 0) {
      if (word.starts_with("if")) ++skipped;
      if (word == "endif" || (skipped == 1 && word.starts_with("el"))) --skipped;
      continue;
    }
    if (word == "if" && condition == "0") skipped = 1;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] != '"' || word == "include") {
        active += line[i];
      } else {
        for (++i; i < line.size() && line[i] != '"'; ++i) i += line[i] == '\\';
      }
    }
    active += '\n';
  }
  return active;
}

}  // namespace

bool includes_toolkit(const std::vector<SourceFile>& files) {
  if (!is_added_file(files.front().path)) return false;
  for (const SourceFile& file : files) {
    const std::string code = active_text(file.text);
    for (const std::string_view line : split(code, '\n')) {
      const auto [word, name] = directive_of(line);
      if (word != "include") continue;
      const bool is_quoted = name.starts_with('"');
      if (!is_quoted ||
          std::ranges::find(files, name.substr(1, name.find('"', 1) - 1), &SourceFile::path) == files.end())
        return true;
    }
  }
  return false;
}

std::vector<std::string> global_functions(std::string_view text) {
  const std::string code = active_text(text);
  std::vector<std::string> names;
  for (std::size_t at = code.find("__global__"); at != std::string::npos; at = code.find("__global__", at + 1)) {
    // The name stands in front of the first parenthesis that is no attribute's.
    std::size_t open = code.find('(', at);
    std::string name;
    while (open != std::string::npos) {
      std::size_t last = open;
      while (last > at && std::isspace(static_cast<unsigned char>(code[last - 1]))) --last;
      std::size_t first = last;
      while (first > at && (std::isalnum(static_cast<unsigned char>(code[first - 1])) || code[first - 1] == '_'))
        --first;
      name = code.substr(first, last - first);
      if (!name.starts_with("__")) break;
      open = code.find('(', code.find(')', open));
    }
    if (open != std::string::npos && !name.empty()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> quoted_includes(std::string_view text) {
  const std::string code = without_comments(text);
  std::vector<std::string> names;
  for (const std::string_view line : split(code, '\n')) {
    const auto [word, name] = directive_of(line);
    const std::size_t end = name.find('"', 1);
    if (word == "include" && name.starts_with('"') && end != std::string_view::npos)
      names.emplace_back(name.substr(1, end - 1));
  }
  return names;
}

std::vector<SourceFile> collect_sources(const std::string& path, const SourceReader& reader) {
  const bool own = !reader && is_added_file(path);
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const auto read = [&](const std::string& name) {
    if (reader) return reader(name);
    if (std::optional<std::string> beside = own && name != path ? find_resource(folder + name) : std::nullopt)
      return beside;
    return find_resource(name);
  };
  const auto scan = [&](const std::string& name, const std::string& text) {
    if (!own) {
      require_own_includes(name, text);
      return quoted_includes(text);
    }
    const std::string active = active_text(text);
    require_own_includes(name, active, true);
    return quoted_includes(active);
  };
  std::optional<std::string> main_text = read(path);
  if (!main_text && !reader) main_text = read_resource(path);  // throws, saying where it looked
  if (!main_text) throw BrokenEnvironment("no template '" + path + "'");

  std::map<std::string, std::string> headers;
  std::vector<std::string> to_scan = scan(path, *main_text);
  while (!to_scan.empty()) {
    const std::string name = std::move(to_scan.back());
    to_scan.pop_back();
    if (name == path || headers.contains(name)) continue;
    std::optional<std::string> text = read(name);
    if (!text) continue;
    for (std::string& include : scan(name, *text)) to_scan.push_back(std::move(include));
    headers.emplace(name, *std::move(text));
  }

  std::vector<SourceFile> files = {{path, *std::move(main_text)}};
  for (auto& [name, text] : headers) files.push_back({name, std::move(text)});
  if (includes_toolkit(files)) add_host_headers(files);
  return files;
}

std::string source_digest(const std::string& path, const SourceReader& reader) {
  DigestBuilder builder;
  for (const SourceFile& file : collect_sources(path, reader)) builder.add(file.path).add(file.text);
  return builder.finish();
}

}  // namespace moetune
