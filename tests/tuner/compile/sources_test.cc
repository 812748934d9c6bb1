#include "tuner/compile/sources.h"

#include <doctest/doctest.h>

#include <map>

#include "base/error.h"

using moetune::collect_sources;
using moetune::quoted_includes;
using moetune::source_digest;
using moetune::SourceFile;
using moetune::SourceReader;

namespace {

using Files = std::map<std::string, std::string>;

SourceReader reader_of(Files files) {
  return [files = std::move(files)](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
}

}  // namespace

TEST_CASE("includes are found however they are spaced, and comments and angle brackets are not") {
  const char* text =
      "#include \"a.cuh\"\n"
      "  #  include\t\"dir/b.cuh\"  // why\n"
      "// #include \"comment.cuh\"\n"
      "/* #include \"block.cuh\"\n"
      "#include \"block2.cuh\" */ #include \"after.cuh\"\n"
      "#include <vector>\n"
      "const char* s = \"/*\";\n"
      "#include \"c.cuh\"\r\n"
      "#include \"unfinished\n"
      "#if 0\n#include \"skipped.cuh\"\n#endif";
  CHECK(quoted_includes(text) == std::vector<std::string>{"a.cuh", "dir/b.cuh", "after.cuh", "c.cuh", "skipped.cuh"});
  CHECK(quoted_includes("").empty());
  CHECK(quoted_includes("/* never closed\n#include \"a\"").empty());
}

TEST_CASE("headers are collected transitively, once each, cycles included") {
  const SourceReader reader = reader_of({{"k.cu", "#include \"z.cuh\"\n#include \"a.cuh\"\n"},
                                         {"a.cuh", "#include \"z.cuh\"\n#include \"k.cu\"\n"},
                                         {"z.cuh", "#include \"a.cuh\"\n#include \"missing.cuh\"\n"},
                                         {"other.cuh", "int unused;"}});
  const std::vector<SourceFile> files = collect_sources("k.cu", reader);
  REQUIRE(files.size() == 3);
  CHECK(files[0].path == "k.cu");
  CHECK(files[1].path == "a.cuh");
  CHECK(files[2].path == "z.cuh");
}

TEST_CASE("no include reaches a file beside the templates, however it is written") {
  for (const char* line :
       {"#include \"/etc/passwd\"", "#include \"../../etc/passwd\"", "#include </etc/passwd>",
        "#include_next \"/etc/passwd\"", "#define S \"/etc/passwd\"\n#include S", "#\\\ninclude </etc/passwd>",
        "#inc\\ \nlude </etc/passwd>", "%:include </etc/passwd>", "/**/ # /**/ include /* */ </etc/passwd>",
        "char c = '\"', *s = \"/*\";\n#include \"/etc/passwd\"\n/**/", "#embed </etc/passwd>",
        "#if __has_include(\"/etc/passwd\")\n#endif", "#if __has_\\\ninclude(<x>)\n#endif"}) {
    CAPTURE(line);
    CHECK_THROWS_AS(collect_sources("k.cu", reader_of({{"k.cu", line}})), moetune::BadInput);
    CHECK_THROWS_AS(collect_sources("k.cu", reader_of({{"k.cu", "#include \"h.cuh\"\n"}, {"h.cuh", line}})),
                    moetune::BadInput);
  }
  CHECK_THROWS_WITH_AS(collect_sources("k.cu", reader_of({{"k.cu", "#include <a.h>\nint x;"}})),
                       "k.cu: '#include <a.h>': an include names a file of the templates, in quotes",
                       moetune::BadInput);
}

TEST_CASE("a missing template is an environment error that names it") {
  CHECK_THROWS_WITH_AS(collect_sources("none.cu", reader_of({})), "no template 'none.cu'", moetune::BrokenEnvironment);
  CHECK_THROWS_WITH_AS(collect_sources("templates/none.cu"), "no file 'templates/none.cu' in this binary",
                       moetune::BrokenEnvironment);
}

TEST_CASE("a source digest follows the template and its headers and nothing else") {
  Files files = {{"k.cu", "#include \"a.cuh\"\n"},
                 {"a.cuh", "#include \"b.cuh\"\n"},
                 {"b.cuh", "int b;"},
                 {"unrelated.cuh", "int u;"}};
  const std::string before = source_digest("k.cu", reader_of(files));
  files["unrelated.cuh"] = "int changed;";
  CHECK(source_digest("k.cu", reader_of(files)) == before);
  files["b.cuh"] = "int b; ";
  const std::string header_edited = source_digest("k.cu", reader_of(files));
  CHECK(header_edited != before);
  files["k.cu"] += "int k;";
  CHECK(source_digest("k.cu", reader_of(files)) != header_edited);
}
