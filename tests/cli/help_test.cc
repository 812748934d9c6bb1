#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/tool.h"
#include "tests/paths.h"

using namespace moetune::testing;

namespace {

const std::vector<std::string> kCommands = {"search",     "report",  "compare", "kernels", "space",  "import",
                                            "devices",    "compile", "verify",  "bench",   "record", "cache",
                                            "workloads",  "tune",    "retune",  "serve",   "sync",   "doctor",
                                            "completion", "man",     "prepare"};

// The longest line, in characters.
std::size_t width_of(const std::string& text) {
  std::size_t width = 0, longest = 0;
  for (const char c : text) {
    width = c == '\n' ? 0 : width + ((c & 0xC0) != 0x80);
    longest = std::max(longest, width);
  }
  return longest;
}

}  // namespace

TEST_CASE("help lists every command and says how to start") {
  Tool tool;
  const Ended ended = tool.run({"--help"});
  CHECK(ended.code == 0);
  CHECK(ended.err.empty());
  for (const std::string& command : kCommands) CHECK(contains(ended.out, "\n  " + command + " "));
  CHECK(contains(ended.out, "moetune search decode_attention --budget 200"));
  CHECK_FALSE(contains(ended.out, "worker"));
}

TEST_CASE("no command at all is bad usage, with the help on stderr") {
  Tool tool;
  const Ended ended = tool.run({});
  CHECK(ended.code == 2);
  CHECK(ended.out.empty());
  CHECK(contains(ended.err, "usage: moetune COMMAND"));
}

TEST_CASE("every command explains itself, under both spellings") {
  Tool tool;
  for (const std::string& command : kCommands) {
    CAPTURE(command);
    const Ended ended = tool.run({command, "--help"});
    CHECK(ended.code == 0);
    CHECK(contains(ended.out, "usage: moetune " + command));
    CHECK(contains(ended.out, "--json"));
    CHECK(tool.run({"help", command}).out == ended.out);
  }
}

TEST_CASE("help fits the screen, whatever its width, and 80 columns in a pipe") {
  for (const std::size_t columns : {60, 80, 100, 200}) {
    Tool tool(std::map<std::string, std::string>{{"COLUMNS", std::to_string(columns)}});
    CHECK(width_of(tool.run({"--help"}).out) <= columns);
    CHECK(width_of(tool.run({"help", "environment"}).out) <= columns);
    for (const std::string& command : kCommands) {
      CAPTURE(command);
      CAPTURE(columns);
      const std::string help = tool.run({command, "router", "--help"}).out;
      CHECK(width_of(help) <= columns);
      // Room that is there is used, and no line begins in the middle of a gap.
      if (columns == 200) CHECK(width_of(help) > 80);
      CHECK_FALSE(std::regex_search(help, std::regex(" \n")));
    }
  }
  Tool piped(std::map<std::string, std::string>{{"COLUMNS", ""}});
  for (const std::string& command : kCommands) CHECK(width_of(piped.run({command, "--help"}).out) <= 80);
  CHECK(width_of(piped.run({"search", "--help", "--wide"}).out) > 100);
}

TEST_CASE("the tables of kernels break between words") {
  Tool tool(std::map<std::string, std::string>{{"COLUMNS", "80"}});
  for (const char* kernel : {"router", "decode_attention", "moe_dispatch", "prefill_attention"}) {
    const std::string text = tool.run({"kernels", kernel}).out;
    CHECK(width_of(text) <= 80);
    // The docs stand in one column: a line of it alone that begins one further right was broken before its space.
    std::map<std::size_t, std::size_t> indents;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t indent = line.find_first_not_of(' ');
      if (indent != std::string::npos && indent > 20) ++indents[indent];
    }
    for (const auto& [indent, count] : indents) {
      CAPTURE(kernel);
      CAPTURE(indent);
      CHECK_FALSE(indents.contains(indent + 1));
    }
  }
}

TEST_CASE("every option of time takes a span, and no other unit is named") {
  Tool tool;
  for (const std::string& command : kCommands) {
    const std::string help = tool.run({command, "--help", "--wide"}).out;
    CAPTURE(command);
    CHECK_FALSE(std::regex_search(help, std::regex("how many seconds|--[a-z-]+ S ")));
  }
  for (const auto& [command, options] :
       std::map<std::string, std::vector<std::string>>{{"search", {"--time", "--trial-time", "--quiet-wait"}},
                                                       {"bench", {"--quiet-wait"}},
                                                       {"verify", {"--trial-time"}},
                                                       {"record", {"--quiet-wait"}},
                                                       {"tune", {"--time", "--quiet-wait"}},
                                                       {"prepare", {"--time", "--quiet-wait"}},
                                                       {"retune", {"--time", "--max-age", "--quiet-wait"}},
                                                       {"serve", {"--max-time", "--quiet-wait"}},
                                                       {"sync", {"--every"}}}) {
    for (const std::string& option : options) {
      CAPTURE(command);
      CHECK(contains(tool.run({command, "--help"}).out, option + " SPAN"));
      const Ended wrong = tool.run({command, "x", "y", option, "soon"});
      CHECK(wrong.code == 2);
      if (command == "search" || command == "sync")
        CHECK(contains(tool.run(command == "sync" ? std::vector<std::string>{command, "http://h", "d", option, "soon"}
                                                  : std::vector<std::string>{command, "router", option, "soon"})
                           .err,
                       option + " takes a span of time, such as 90, 30s, 5m or 1h30m"));
    }
  }
}

TEST_CASE("-h after a command is its help") {
  Tool tool;
  CHECK(tool.run({"search", "-h"}).out == tool.run({"search", "--help"}).out);
  CHECK(tool.run({"search", "--budget", "x", "-h"}).code == 0);
}

TEST_CASE("the environment has a help of its own, and a page that has every variable") {
  Tool tool;
  const nlohmann::json variables = document(tool.run({"help", "environment", "--json"}))["environment"];
  // tests/base/environment_test.cc holds the page's first table to what is read.
  const std::string page = read_text(paths::source("docs/environment.md"));
  const std::string table = page.substr(0, page.find("\n## "));
  const std::regex name("[A-Z][A-Z0-9_]+");
  std::set<std::string> printed;
  for (const auto& [names, doc] : variables.items()) {
    for (std::sregex_iterator one(names.begin(), names.end(), name), end; one != end; ++one) printed.insert(one->str());
  }
  for (const std::string& one : printed) {
    CAPTURE(one);
    CHECK(contains(table, "`" + one + "`"));
  }
  std::istringstream rows(table);
  for (std::string row; std::getline(rows, row);) {
    row = row.starts_with("| `") ? row.substr(0, row.find(" | ")) : "";
    for (std::sregex_iterator one(row.begin(), row.end(), name), end; one != end; ++one) {
      CAPTURE(one->str());
      CHECK(printed.contains(one->str()));
    }
  }
  CHECK(contains(tool.run({"help", "environment"}).out, "MOETUNE_NVRTC"));
}

TEST_CASE("pages name only options that commands have") {
  Tool tool;
  tool.set_environment("MOETUNE_KERNELS", std::filesystem::path(paths::source("examples/kernels")).string());
  std::map<std::string, std::string> helps, own_helps;
  for (const std::string& command : kCommands) helps[command] = tool.run({command, "--help"}).out;
  std::vector<std::filesystem::path> pages = {paths::source("README.md"), paths::source("CONTRIBUTING.md")};
  for (const auto& entry : std::filesystem::directory_iterator(paths::source("docs"))) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  // A command after `moetune ` or at the start of a code span, up to what ends the span, the line or the command.
  const std::regex use("(?:moetune |`)([a-z]+)((?: [^`\\n|;&#]*)?)"), option("(?:^| )(--[a-z][a-z0-9-]*)");
  std::size_t seen = 0;
  for (const std::filesystem::path& page : pages) {
    const std::string text = read_text(page);
    for (std::sregex_iterator one(text.begin(), text.end(), use), end; one != end; ++one) {
      const auto help = helps.find((*one)[1]);
      if (help == helps.end()) continue;
      const std::string words = (*one)[2];
      for (std::sregex_iterator named(words.begin(), words.end(), option); named != end; ++named, ++seen) {
        CAPTURE(page.string());
        CAPTURE(one->str());
        const std::string kernel = words.substr(1, words.find(' ', 1) - 1);  // whose dimensions are options, too
        const auto [known, is_new] = own_helps.try_emplace((*one)[1].str() + " " + kernel);
        std::string& own = known->second;
        if (is_new) own = tool.run({(*one)[1].str(), kernel, "--help"}).out;
        CHECK(contains(own.empty() ? help->second : own, "  " + (*named)[1].str() + " "));
      }
    }
  }
  CHECK(seen > 60);
}

TEST_CASE("only what a recording can serve offers recordings as devices") {
  Tool tool;
  for (const std::string command : {"search", "space"}) {
    CHECK(contains(tool.run({command, "--help", "--wide"}).out, "cuda:N, or"));
  }
  for (const std::string command : {"verify", "bench", "record"}) {
    CAPTURE(command);
    const std::string help = tool.run({command, "--help", "--wide"}).out;
    const std::string option = help.substr(help.find("--device"), 160);
    CHECK(contains(option, "cuda:N"));
    CHECK_FALSE(contains(option.substr(0, option.find('\n')), "replay"));
  }
}

TEST_CASE("each command with --threads says that more than 16 compilers count as 16") {
  Tool tool;
  for (const char* command : {"search", "tune", "retune", "record", "serve"}) {
    const std::string help = tool.run({"help", command}).out;
    REQUIRE(contains(help, "--threads"));
    std::string words;  // as on one line
    for (const char c : help) {
      if (c != ' ' && c != '\n')
        words += c;
      else if (!words.empty() && words.back() != ' ')
        words += ' ';
    }
    CHECK_MESSAGE(contains(words, "at most 16: more count as 16"), command);
  }
}

TEST_CASE("help as JSON is one document") {
  Tool tool;
  CHECK(contains(document(tool.run({"search", "--help", "--json"}))["help"], "--budget"));
}

TEST_CASE("the version is the project's") {
  Tool tool;
  const Ended ended = tool.run({"--version"});
  CHECK(ended.code == 0);
  const std::string version = ended.out.substr(8, ended.out.size() - 9);
  CHECK(ended.out == "moetune " + version + "\n");
  CHECK(contains(read_text(paths::source("CMakeLists.txt")), "project(moetune VERSION " + version + " "));
  CHECK(document(tool.run({"--version", "--json"}))["version"] == version);
}
