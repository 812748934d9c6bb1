// Completion in the shells themselves, and the man pages in man.
#include <fstream>
#include <set>

#include "tests/cli/tool.h"

using namespace moetune::testing;

namespace {

constexpr const char* kAskBash = R"ask(set -u
eval "$(moetune completion bash)"
COMP_LINE=$(cat line; printf x); COMP_LINE=${COMP_LINE%x}
COMP_POINT=${#COMP_LINE}
$(complete -p moetune | sed 's/.*-F \([^ ]*\).*/\1/')
printf '%s\n' ${COMPREPLY[@]+"${COMPREPLY[@]}"}
)ask";

// An interactive zsh on a terminal of its own, to which a tabulator is typed; it has ended when it has said so.
constexpr const char* kAskZsh = R"ask(zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; stty -echo; autoload -Uz compinit; compinit -u -D; source <(moetune completion zsh); print re''ady'
zpty -r -m shell dummy '*ready*'
zpty -w -n shell "$1"$'\t'
sleep 2
zpty -w -n shell $'\x15'
zpty -w shell 'print fin''ished'
zpty -r -m shell answer '*finished*'
print -r -- $answer
)ask";

// A folder on PATH in which the tool is called moetune.
class Shelled {
 public:
  Shelled() {
    std::filesystem::create_directories(tool.path("bin"));
    std::filesystem::create_symlink(std::filesystem::absolute(tool.binary()), tool.path("bin/moetune"));
    tool.set_environment("PATH", tool.path("bin").string() + ":/usr/local/bin:/usr/bin:/bin");
  }

  // What bash offers behind the line, as it would put it in place of the last part of the last word.
  std::set<std::string> bash(const std::string& line) {
    tool.write("line", line);
    tool.write("ask.bash", kAskBash);
    const std::string ask = "cd " + tool.path("").string() + " && exec bash ask.bash";
    const Ended ended = tool.start_program({"/bin/sh", "-c", ask})->wait();
    CHECK(ended.code == 0);
    CHECK(ended.err.empty());
    return lines(ended.out);
  }

  static std::set<std::string> lines(const std::string& text) {
    std::set<std::string> all;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      if (!line.empty()) all.insert(line);
    }
    return all;
  }

  Tool tool;
};

bool has(const std::set<std::string>& words, const std::vector<std::string>& wanted) {
  return std::ranges::all_of(wanted, [&](const std::string& word) { return words.contains(word); });
}

// "" if the program is there.
std::string why_missing(const std::string& program) {
  for (const char* folder : {"/usr/local/bin/", "/usr/bin/", "/bin/"}) {
    if (std::filesystem::exists(folder + program)) return "";
  }
  return program + " is not installed";
}

}  // namespace

TEST_CASE("bash completes commands, kernels, options, presets, dimensions and their values") {
  Shelled shell;
  CHECK(has(shell.bash("moetune "), {"search", "report", "cache", "doctor", "help"}));
  CHECK(shell.bash("moetune sea") == std::set<std::string>{"search"});
  CHECK(has(shell.bash("moetune search "), {"decode_attention", "router"}));
  CHECK(shell.bash("moetune search decode_a") == std::set<std::string>{"decode_attention"});
  CHECK(has(shell.bash("moetune search decode_attention --"), {"--budget", "--kv-heads", "--json", "--over"}));
  CHECK_FALSE(has(shell.bash("moetune search decode_attention --"), {"--tokens"}));
  CHECK(has(shell.bash("moetune search decode_attention --preset "), {"gpt-oss-20b", "qwen3-30b-a3b"}));
  CHECK(has(shell.bash("moetune search router --preset "), {"deepseek-v3"}));
  CHECK_FALSE(has(shell.bash("moetune search decode_attention --preset "), {"deepseek-v3"}));
  CHECK(has(shell.bash("moetune search decode_attention --problem "), {"batch=", "context="}));
  CHECK(has(shell.bash("moetune search decode_attention --problem batch=1,con"), {"1,context="}));
  CHECK_FALSE(has(shell.bash("moetune search decode_attention --problem batch=1,"), {"1,batch="}));
  CHECK(shell.bash("moetune search decode_attention --problem dtype=f") == std::set<std::string>{"fp16"});
  CHECK(shell.bash("moetune search decode_attention --dtype ") == std::set<std::string>{"bf16", "fp16"});
  CHECK(has(shell.bash("moetune verify decode_attention --config body="), {"tma", "mma"}));
  CHECK(shell.bash("moetune search --timing=over") == std::set<std::string>{"overlapped"});
  CHECK(shell.bash("moetune report --sort ti") == std::set<std::string>{"time"});
  CHECK(shell.bash("moetune cache ls --color ") == std::set<std::string>{"auto", "always", "never"});
  CHECK(has(shell.bash("moetune search decode_attention --device replay:dec"), {"decode_attention_h200_b64_c8192"}));
  CHECK(shell.bash("moetune help sea") == std::set<std::string>{"search"});
  CHECK(shell.bash("moetune search decode_attention --budget ").empty());
  CHECK(shell.bash("moetune nonsense ").empty());
}

TEST_CASE("bash completes actions, the cache's keys, and files and folders") {
  Shelled shell;
  const std::string cache = shell.tool.path("c.db").string();
  REQUIRE(shell.tool
              .run({"search", "--device", "replay:" + shell.tool.write_recording(), "--budget", "5", "--cache", cache})
              .code == 0);
  CHECK(has(shell.bash("moetune cache "), {"ls", "show", "export", "new-key"}));
  CHECK(shell.bash("moetune cache show --cache c.db ") == std::set<std::string>{"1"});
  CHECK(shell.bash("moetune cache show --cache=c.db ") == std::set<std::string>{"1"});
  CHECK(shell.bash("moetune cache show --cache nothing.db ").empty());
  CHECK(has(shell.bash("moetune cache check "), {"c.db", "saxpy.json"}));
  CHECK(shell.bash("moetune cache check sax") == std::set<std::string>{"saxpy.json"});
  CHECK(shell.bash("moetune cache merge c.db sax") == std::set<std::string>{"saxpy.json"});
  CHECK(shell.bash("moetune report --cache=sax") == std::set<std::string>{"saxpy.json"});
  CHECK(shell.bash("moetune report --t4 bi") == std::set<std::string>{"bin"});
  CHECK(shell.bash("moetune workloads show sax") == std::set<std::string>{"saxpy.json"});
  CHECK(shell.bash("moetune prepare sax") == std::set<std::string>{"saxpy.json"});
  CHECK(shell.bash("moetune prepare m --server ") == std::set<std::string>{"sglang", "transformers", "vllm"});
  // Only what may stand behind the action.
  CHECK_FALSE(has(shell.bash("moetune cache ls --"), {"--trust"}));
  CHECK(has(shell.bash("moetune cache check c.db --"), {"--trust"}));
}

TEST_CASE("fish completes the same words") {
  if (const std::string why = why_missing("fish"); !why.empty()) {
    MESSAGE("SKIPPED: " << why);
    return;
  }
  Shelled shell;
  const auto fish = [&](const std::string& line) {
    const std::string ask = "moetune completion fish | source; complete -C '" + line + "'";
    const Ended ended = shell.tool.start_program({"/usr/bin/fish", "-N", "-c", ask})->wait();
    CHECK(ended.err.empty());
    std::set<std::string> words;
    for (const std::string& one : Shelled::lines(ended.out)) words.insert(one.substr(0, one.find('\t')));
    return words;
  };
  CHECK(has(fish("moetune "), {"search", "doctor"}));
  CHECK(fish("moetune search decode_a") == std::set<std::string>{"decode_attention"});
  CHECK(has(fish("moetune search decode_attention --problem batch=1,con"), {"batch=1,context="}));
  CHECK(has(fish("moetune search decode_attention --k"), {"--kv-heads"}));
}

TEST_CASE("zsh completes the same words") {
  if (const std::string why = why_missing("zsh"); !why.empty()) {
    MESSAGE("SKIPPED: " << why);
    return;
  }
  Shelled shell;
  shell.tool.write("ask.zsh", kAskZsh);
  const auto zsh = [&](const std::string& line) {
    return shell.tool.start_program({"/usr/bin/zsh", "-f", shell.tool.path("ask.zsh").string(), line})->wait().out;
  };
  CHECK(contains(zsh("moetune sea"), "moetune search"));
  CHECK(contains(zsh("moetune search "), "decode_attention"));
  CHECK(contains(zsh("moetune search decode_attention --preset "), "gpt-oss-20b"));
  CHECK(contains(zsh("moetune search decode_attention --problem con"), "text="));
}

TEST_CASE("a completion of nonsense ends quickly and offers nothing, and a damaged cache is no error") {
  Tool tool;
  tool.write("c.db", std::string(8192, 'x'));
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {""},
                                             {"cache", "show", "--cache", tool.path("c.db").string(), ""},
                                             {"--", ""},
                                             {"search", "--problem", ",,=,", "--problem="},
                                             {"cache", "nothing", "a", "b", ""},
                                             {"search", "--json", "--nothing", ""}}) {
    std::vector<std::string> command = {"__complete"};
    command.insert(command.end(), words.begin(), words.end());
    const Ended ended = tool.run(command);
    CHECK(ended.code == 0);
    CHECK(ended.err.empty());
  }
  CHECK(tool.run({"completion", "tcsh"}).code == 2);
  CHECK(contains(document(tool.run({"completion", "bash", "--json"}))["script"], "complete -F"));
}

TEST_CASE("each command has a man page that man shows without a warning") {
  Tool tool;
  const std::string folder = tool.path("man1").string();
  const Ended written = tool.run({"man", "--folder", folder, "--json"});
  REQUIRE(written.code == 0);
  const Json pages = document(written)["pages"];
  CHECK(pages.size() > 15);
  const std::string search = read_text(folder + "/moetune-search.1");
  CHECK(contains(search, ".SH OPTIONS"));
  CHECK(contains(search, "\\-\\-budget N"));
  CHECK(contains(search, "\\-\\-kv\\-heads N"));
  CHECK(tool.run({"man", "search"}).out == search);
  CHECK(tool.run({"man"}).out == read_text(folder + "/moetune.1"));
  CHECK(contains(tool.run({"man", "serch"}).err, "did you mean 'search'"));
  for (const Json& page : pages) {
    const std::string text = read_text(folder + "/" + page.get<std::string>());
    CHECK(std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
    CHECK(contains(text, ".TH moetune"));
  }
  if (const std::string why = why_missing("groff"); !why.empty()) {
    MESSAGE("SKIPPED: " << why);
    return;
  }
  for (const Json& page : pages) {
    const Ended shown = tool.start_program({"/usr/bin/groff", "-man", "-Tutf8", "-ww", "-P-cbou",
                                            folder + "/" + page.get<std::string>()})
                            ->wait();
    CHECK(shown.code == 0);
    CHECK_MESSAGE(shown.err.empty(), page << ": " << shown.err);
    CHECK(contains(shown.out, "NAME"));
  }
}
