#include "tests/cli/tool.h"
#include "tests/paths.h"
#include "tests/sanitized.h"

using namespace moetune::testing;

namespace {

struct Case {
  std::vector<std::string> arguments;
  int code;
  std::string sentence;  // part of the message
};

// The exit code, one sentence on stderr, nothing on stdout; and the same as one JSON document.
void check(Tool& tool, const Case& expected) {
  std::string line;
  for (const std::string& argument : expected.arguments) line += " " + argument;
  CAPTURE(line);
  const Ended plain = tool.run(expected.arguments);
  CHECK(plain.code == expected.code);
  CHECK(plain.out.empty());
  CHECK(plain.err.starts_with("moetune: "));
  CHECK_MESSAGE(contains(plain.err, expected.sentence), plain.err);

  std::vector<std::string> arguments = expected.arguments;
  arguments.push_back("--json");
  const Ended json = tool.run(arguments);
  CHECK(json.code == expected.code);
  const nlohmann::json error = document(json)["error"];
  CHECK(error["kind"] == (expected.code == 2 ? "bad_input" : "broken_environment"));
  CHECK(contains(error["message"], expected.sentence));
}

}  // namespace

TEST_CASE("unknown commands and options name the nearest") {
  Tool tool;
  check(tool, {{"serch"}, 2, "unknown command 'serch'; did you mean 'search'"});
  check(tool,
        {{"search", "decode_attention", "--bugdet", "5"}, 2, "unknown option '--bugdet'; did you mean '--budget'?"});
  check(tool, {{"search", "decode_attention", "--bugdet=5"}, 2, "did you mean '--budget'?"});
  check(tool, {{"search", "-b", "5"}, 2, "unknown option '-b'"});
  check(tool, {{"search", "---"}, 2, "'---' is no option"});
  check(tool, {{"--budget", "5"}, 2, "options come after the command"});
  check(tool, {{"cache", "lst"}, 2, "unknown action 'lst'; did you mean 'ls'?"});
}

TEST_CASE("an option with an empty value names no file and no architecture") {
  Tool tool;
  check(tool, {{"report", "--cache", ""}, 2, "--cache takes no empty value"});
  check(tool, {{"space", "decode_attention", "--arch", ""}, 2, "--arch takes no empty value"});
}

TEST_CASE("models with latent attention are said to be another kernel's") {
  Tool tool;
  for (const std::string preset : {"deepseek-v3", "deepseek-r1", "kimi-k2"}) {
    check(tool, {{"search", "decode_attention", "--preset", preset}, 2, "(MLA)"});
  }
}

TEST_CASE("a folder of data without recordings is named where one is missing") {
  Tool tool(std::map<std::string, std::string>{{"MOETUNE_DATA_DIR", paths::source("tests/cli")}});
  check(tool, {{"search", "decode_attention"}, 3, "MOETUNE_DATA_DIR"});
}

TEST_CASE("an option without its value says so") {
  Tool tool;
  const Ended ended = tool.run({"search", "decode_attention", "--budget"});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "--budget needs a value: --budget N"));
}

TEST_CASE("unknown kernels, presets, dimensions, parameters and strategies name the nearest") {
  Tool tool;
  check(tool, {{"search", "decode_atention"}, 2, "unknown kernel 'decode_atention'; did you mean 'decode_attention'?"});
  check(tool, {{"kernels", "decode_atention"}, 2, "did you mean 'decode_attention'?"});
  check(tool, {{"space", "decode_atention"}, 2, "did you mean 'decode_attention'?"});
  check(tool, {{"verify", "decode_atention"}, 2, "did you mean 'decode_attention'?"});
  check(tool, {{"bench", "decode_atention"}, 2, "did you mean 'decode_attention'?"});
  check(tool,
        {{"record", "decode_atention", "--output", tool.path("x").string()}, 2, "did you mean 'decode_attention'?"});
  check(tool, {{"search", "decode_attention", "--preset", "qwen3-30b-a3"}, 2, "did you mean 'qwen3-30b-a3b'"});
  check(tool, {{"search", "decode_attention", "--problem", "bach=4"}, 2, "did you mean 'batch'?"});
  check(tool, {{"search", "decode_attention", "--problem", "batch"}, 2, "--problem"});
  check(tool, {{"search", "decode_attention", "--problem", "batch=0"},
               2,
               "--problem: decode_attention: batch=0 is out of range"});
  check(tool, {{"search", "decode_attention", "--problem", "batch=4,batch=5"}, 2, "batch"});
  check(tool,
        {{"search", "decode_attention", "--strategy", "locl"}, 2, "unknown strategy 'locl'; did you mean 'local'?"});
  check(tool, {{"space", "decode_attention", "--arch", "sm_91"}, 2, "sm_90a"});
  check(tool, {{"search"}, 2, "which KERNEL?"});
}

TEST_CASE("an empty word is no kernel's name") {
  Tool tool;
  const std::string recording = tool.write_recording(), output = tool.path("x").string();
  for (const std::vector<std::string>& words : {std::vector<std::string>{"search", ""},
                                                {"search", "", "--device", "replay:" + recording},
                                                {"kernels", ""},
                                                {"space", ""},
                                                {"space", "", "--device", "replay:" + recording},
                                                {"report", ""},
                                                {"verify", ""},
                                                {"bench", ""},
                                                {"record", "", "--output", output}}) {
    check(tool, {words, 2, "unknown kernel ''; known: "});
  }
}

TEST_CASE("an illegal shape says which rule it breaks") {
  Tool tool;
  check(tool, {{"search", "decode_attention", "--problem", "q_heads=30,kv_heads=8"}, 2, "kv_heads"});
}

TEST_CASE("unknown devices and recordings are bad input") {
  Tool tool;
  const std::string recording = tool.write_recording();
  check(tool, {{"search", "decode_attention", "--device", "gpu"}, 2, "--device: it is auto, cuda:N, a UUID"});
  check(tool, {{"search", "decode_attention", "--device", "cuda:x"}, 2, "cuda:0"});
  check(tool, {{"search", "--device", "replay:"}, 2, "replay:FILE"});
  check(tool, {{"search", "--device", "replay:" + tool.path("none.json").string()}, 2, "none.json"});
  check(tool, {{"search", "decode_attention", "--device", "replay:" + recording}, 2, "a recording of saxpy"});
  check(tool, {{"search", "saxpy", "--problem", "n=5", "--device", "replay:" + recording}, 2, "do not apply"});
  check(tool, {{"search", "--device", "replay:" + tool.path("").string()}, 2, "KERNEL: it is needed"});
  tool.write("broken.json", "{\"device_name\": ");
  check(tool, {{"search", "--device", "replay:" + tool.path("broken.json").string()}, 2, "broken.json"});
}

TEST_CASE("what runs kernels says plainly that it needs a GPU") {
  Tool tool;
  check(tool, {{"verify", "decode_attention"}, 3, "verify needs a GPU"});
  check(tool, {{"bench", "decode_attention"}, 3, "bench needs a GPU"});
  check(tool, {{"verify", "decode_attention", "--config", "tile=64"}, 3, "verify needs a GPU"});
  for (const char* command : {"verify", "bench"}) {  // what is wrong with the text is said first
    check(tool, {{command, "decode_attention", "--config", "tiel=64"}, 2, "did you mean 'tile'?"});
    check(tool, {{command, "decode_attention", "--config", "tile=65"}, 2, "tile"});
    check(tool, {{command, "decode_attention", "--config", ""}, 2, "names no parameter"});
    check(tool, {{command, "decode_atention", "--config", "tile=64"}, 2, "did you mean 'decode_attention'?"});
  }
  check(tool, {{"record", "decode_attention", "--output", tool.path("x").string()}, 3, "record needs a GPU"});
  check(tool, {{"devices", "--calibrate"}, 3, "GPU"});
}

TEST_CASE("a recording named for what runs kernels is bad input") {
  Tool tool;
  const std::string recording = "replay:" + tool.write_recording(), output = tool.path("x").string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"verify"}, {"bench"}, {"record", "--output", output}}) {
    for (const std::string& device : {recording, std::string("replay:none")}) {
      Case expected{{words[0], "decode_attention", "--device", device}, 2, "needs a GPU: auto, cuda:N, a UUID"};
      expected.arguments.insert(expected.arguments.end(), words.begin() + 1, words.end());
      check(tool, expected);
    }
  }
}

TEST_CASE("a recording is not written where it could not be kept") {
  Tool tool;
  tool.write("taken", "precious");
  check(tool, {{"record", "decode_attention"}, 2, "--output FILE"});
  check(tool, {{"record", "decode_attention", "--output", tool.path("taken").string()}, 2, "exists already"});
  check(tool, {{"record", "decode_attention", "--output", tool.path("no/such/folder").string()}, 2, "no folder"});
  CHECK(moetune::testing::read_text(tool.path("taken")) == "precious");
}

TEST_CASE("paths that cannot be looked at are bad input or a broken environment, never a bug") {
  Tool tool;
  std::filesystem::create_symlink("loop2", tool.path("loop1"));
  std::filesystem::create_symlink("loop1", tool.path("loop2"));
  const std::string loop = tool.path("loop1").string(), endless(300, 'x');
  check(tool, {{"search", "--device", "replay:" + loop}, 2, "cannot look at the recording"});
  check(tool, {{"search", "--device", "replay:" + endless}, 2, "File name too long"});
  check(tool, {{"record", "decode_kernel", "--output", loop}, 2, "exists already"});
  check(tool, {{"record", "decode_kernel", "--output", loop + "/r.zst"}, 2, "cannot write"});
  check(tool, {{"record", "decode_kernel", "--output", endless}, 2, "File name too long"});
  check(tool, {{"report", "--cache", loop}, 3, "Too many levels of symbolic links"});
  check(tool, {{"cache", "check", "--cache", endless}, 3, "File name too long"});
}

TEST_CASE("an option behind -- is said to stand there") {
  Tool tool;
  const Ended ended = tool.run({"search", "--", "--budget"});
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "the option --budget comes after --"));
}

TEST_CASE("what is printed to a closed stream ends in no file") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const std::vector<std::string> search = {"search", "--device", "replay:" + recording, "--budget", "20"};
  std::vector<std::string> command = {"/bin/sh", "-c", "exec \"$0\" \"$@\" <&- >&- 2>&-", tool.binary()};
  command.insert(command.end(), search.begin(), search.end());
  CHECK(tool.start_program(command)->wait().code == 3);  // its result could not be printed
  CHECK(std::filesystem::file_size(tool.path("xdg/moetune/moetune.db-searches")) == 0);
  CHECK(tool.run({"cache", "check"}).code == 0);
  std::vector<std::string> again = search;
  again.push_back("--json");
  CHECK(document(tool.run(again))["trials"]["resumed"] == 20);
}

TEST_CASE("a thread that cannot start is the machine's limit, and no bug") {
  if (kSanitized) return;  // their own threads come first
  Tool tool;
  std::vector<std::string> command = {"/bin/sh",
                                      "-c",
                                      "ulimit -S -s 137438953472 && exec \"$0\" \"$@\"",
                                      tool.binary(),
                                      "search",
                                      "--device",
                                      "replay:" + tool.write_recording()};
  const Ended ended = tool.start_program(command)->wait();
  CHECK(ended.code == 3);
  CHECK(contains(ended.err, "moetune: cannot start a thread: the limit on threads and processes ('ulimit -u')"));
}

TEST_CASE("devices needs no home, and no cache that is sound") {
  Tool homeless(std::map<std::string, std::string>{{"HOME", ""}, {"XDG_CACHE_HOME", ""}});
  CHECK(homeless.run({"devices"}).code == 0);
  check(homeless, {{"report"}, 3, "neither XDG_CACHE_HOME nor HOME"});
  Tool tool;
  std::filesystem::create_directories(tool.path("xdg/moetune"));
  tool.write("xdg/moetune/moetune.db", "no database");
  const Ended listed = tool.run({"devices"});
  CHECK(listed.code == 0);
  CHECK(contains(listed.err, "is not a moetune cache"));
  const std::string named = tool.path("xdg/moetune/moetune.db").string();
  check(tool, {{"devices", "--cache", named}, 3, "is not a moetune cache"});
}

TEST_CASE("a cache that is none is refused and left as it was") {
  Tool tool;
  const std::string recording = tool.write_recording();
  const std::string text =
      "this is a letter, not a database, and long enough to hold a header of one hundred bytes. "
      "Yours sincerely, the owner of this file.";
  tool.write("letter.db", text);
  const std::string letter = tool.path("letter.db").string();
  check(tool, {{"search", "--device", "replay:" + recording, "--cache", letter}, 3, "letter.db"});
  check(tool, {{"report", "--cache", letter}, 3, "letter.db"});
  check(tool, {{"cache", "check", "--cache", letter}, 3, "letter.db"});
  CHECK(moetune::testing::read_text(letter) == text);
  check(tool, {{"search", "--device", "replay:" + recording, "--cache", letter, "--no-cache"},
               2,
               "--cache: a cache file is named, and no cache is to be used"});
}
