#include "tuner/compile/sources.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/digest.h"
#include "base/error.h"
#include "base/resources.h"

namespace moetune {
namespace {

// Comments become blanks, so that an #include inside one is not seen; string literals are left alone, so that
// a
// "//" inside one is not a comment.
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

// `#include "name"` -> name, else nothing.
std::optional<std::string> include_name(std::string_view line) {
  line = skip_blanks(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = skip_blanks(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = skip_blanks(line.substr(7));
  if (!line.starts_with('"')) return std::nullopt;
  const std::size_t end = line.find('"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(line.substr(1, end - 1));
}

}  // namespace

std::vector<std::string> quoted_includes(std::string_view text) {
  const std::string code = without_comments(text);
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < code.size();) {
    const std::size_t end = std::min(code.find('\n', begin), code.size());
    if (auto name = include_name(std::string_view(code).substr(begin, end - begin))) {
      names.push_back(*std::move(name));
    }
    begin = end + 1;
  }
  return names;
}

std::vector<SourceFile> collect_sources(const std::string& path, const SourceReader& reader) {
  const auto read = [&](const std::string& name) { return reader ? reader(name) : find_resource(name); };
  std::optional<std::string> main_text = read(path);
  if (!main_text && !reader) main_text = read_resource(path);  // throws, saying where it looked
  if (!main_text) throw BrokenEnvironment("no template '" + path + "'");

  std::map<std::string, std::string> headers;
  std::vector<std::string> to_scan = quoted_includes(*main_text);
  while (!to_scan.empty()) {
    const std::string name = std::move(to_scan.back());
    to_scan.pop_back();
    if (name == path || headers.contains(name)) continue;
    // NVRTC would look for it in the file system.
    if (leaves_folder(name)) throw BadInput(path + ": #include \"" + name + "\" leads out of the templates");
    std::optional<std::string> text = read(name);
    if (!text) continue;
    for (std::string& include : quoted_includes(*text)) to_scan.push_back(std::move(include));
    headers.emplace(name, *std::move(text));
  }

  std::vector<SourceFile> files = {{path, *std::move(main_text)}};
  for (auto& [name, text] : headers) files.push_back({name, std::move(text)});
  return files;
}

std::string source_digest(const std::string& path, const SourceReader& reader) {
  DigestBuilder builder;
  for (const SourceFile& file : collect_sources(path, reader)) builder.add(file.path).add(file.text);
  return builder.finish();
}

}  // namespace moetune
