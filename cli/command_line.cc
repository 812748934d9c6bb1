#include "cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <exception>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/suggest.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/text.h"
#include "jobs/stored_candidate.h"

namespace moetune {
namespace {

using Json = nlohmann::ordered_json;

std::string tool_help() {
  std::string text =
      "moetune finds the fastest configuration of a CUDA kernel for a workload on a GPU, and keeps it.\n\n"
      "usage: moetune COMMAND [options]\n\n";
  Table table({});
  for (const auto& command : all_commands()) {
    table.add({std::string(command->name()), std::string(command->summary())});
  }
  return text + table.text("  ") +
         "\nmoetune COMMAND --help explains one command; --version prints the version;\n"
         "moetune help environment lists the variables it reads.\n"
         "Exit codes: 0 done, 1 nothing valid found, 2 bad usage or input, 3 broken environment, 4 with\n"
         "--exit-code (retune: tuned or improved; compare: slower), 130 Ctrl-C, 143 SIGTERM.\n"
         "Start with: moetune search decode_attention --budget 200\n";
}

// docs/environment.md has the same names.
constexpr std::string_view kVariables[][2] = {
    {"MOETUNE_NVRTC", "the NVRTC library to compile with (libnvrtc.so.13), or its folder"},
    {"CUDA_HOME, CUDA_PATH", "a CUDA toolkit, whose NVRTC is taken"},
    {"MOETUNE_DATA_DIR", "a folder with templates/, spaces/ and recordings, instead of those in the binary"},
    {"XDG_CACHE_HOME, HOME",
     "where the cache lies: $XDG_CACHE_HOME/moetune/moetune.db, else ~/.cache/moetune/"},
    {"CUDA_VISIBLE_DEVICES", "the GPUs that the driver shows"},
    {"COLUMNS", "the width of tables; by default the terminal's"},
    {"NO_COLOR", "set to anything: a report without colours"},
    {"TERM", "unset or dumb: progress in lines instead of one that is drawn anew"},
    {"PATH, TMPDIR", "where compile finds cuobjdump and nvdisasm, and puts what they read"},
    {"SSL_CERT_FILE, SSL_CERT_DIR", "certificates to trust for https instead of the system's"},
    {"MOETUNE_LIBCUDA, MOETUNE_LIBNVML", "other driver libraries, for tests"},
    {"MOETUNE_REPLAY_PACE_MS", "what a trial of a recording takes, for simulations"},
    {"MOETUNE_RUNTIME, MOETUNE_PIN", "for the runtime library: docs/runtime.md"},
    {"MOETUNE_TRUSTED_KEYS", "the same: whose packs it loads"},
    {"MOETUNE_TORCH_KERNELS", "python: PyTorch calls the operators' kernels in Python"},
    {"TVM_FFI_DISABLE_TORCH_C_DLPACK", "python: set for a moment by import moetune"}};

void show_environment(Output& output) {
  Table table({});
  Json variables = Json::object();
  for (const auto& [name, doc] : kVariables) {
    table.add({std::string(name), std::string(doc)});
    variables[std::string(name)] = doc;
  }
  output.result() << "Environment variables that moetune reads:\n\n" << table.text("  ", output.columns());
  output.document({{"environment", variables}});
}

void show_help(const Command& command, const OptionTable& options, Output& output) {
  std::string text = std::string(command.summary()) + ".\n\nusage: moetune " + std::string(command.name()) +
                     " " + options.usage() + "\n\n" + options.help() +
                     (command.details().empty() ? "" : "\n" + std::string(command.details()));
  text.front() = static_cast<char>(std::toupper(text.front()));
  output.result() << text;
  output.document({{"command", command.name()}, {"help", text}});
}

std::unique_ptr<Command> find_command(const std::string& name) {
  std::vector<std::string> names;
  for (auto& command : all_commands()) {
    if (command->name() == name) return std::move(command);
    names.emplace_back(command->name());
  }
  throw BadInput(unknown_name("command", name, names));
}

int run_command(const std::string& name, const std::vector<std::string>& arguments, Output& output) {
  const std::unique_ptr<Command> command = find_command(name);
  OptionTable options;
  command->declare(options);
  bool json = false;
  bool help = false, wide = false;
  options.flag("json", json, "one JSON document on stdout, everything for people on stderr");
  options.flag("wide", wide, "do not fit tables to the terminal; problems in full");
  options.flag("help", help, "this text");
  // Help wins over whatever else is wrong with the line.
  const bool asked = std::any_of(arguments.begin(), arguments.end(),
                                 [](const std::string& word) { return word == "--help" || word == "-h"; });
  if (asked) {
    show_help(*command, options, output);
    return kDone;
  }
  options.parse(arguments);
  if (wide) output.set_wide();
  Interrupt interrupt;
  const int code = command->run(output, interrupt.token());
  return interrupt.token().stop_requested() ? interrupt.exit_code() : code;
}

int dispatch(const std::vector<std::string>& arguments, Output& output) {
  std::vector<std::string> words = arguments;
  if (words.size() >= 2 && words[0] == "help" && words[1] == "environment") {
    show_environment(output);
    return kDone;
  }
  // `moetune help search` is `moetune search --help`.
  if (words.size() >= 2 && words[0] == "help" && !words[1].starts_with("-")) {
    words = {words[1], "--help"};
  }
  std::erase_if(words, [leading = true](const std::string& word) mutable {
    leading = leading && word == "--json";
    return leading;
  });
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    (words.empty() ? output.notes() : output.result()) << tool_help();
    output.document({{"help", tool_help()}});
    return words.empty() ? kBadInput : kDone;
  }
  if (words[0] == "--version" || words[0] == "-V" || words[0] == "version") {
    output.result() << "moetune " << version() << "\n";
    output.document({{"version", version()}});
    return kDone;
  }
  if (words[0].starts_with("-")) {
    throw BadInput("options come after the command: moetune COMMAND " + words[0]);
  }
  return run_command(words[0], {words.begin() + 1, words.end()}, output);
}

// A request's field is set by the option of the same name.
std::string option_of(std::string field) {
  if (field == "kernel") return "KERNEL";
  std::replace(field.begin(), field.end(), '_', '-');
  return "--" + field;
}

int fail(Output& output, const char* kind, const std::string& message, int code) {
  output.note("moetune: " + message);
  output.document({{"error", {{"kind", kind}, {"message", message}}}});
  return code;
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments) {
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  Output output(json);
  int code = kDone;
  try {
    code = dispatch(arguments, output);
  } catch (const BadField& error) {
    code = fail(output, "bad_input", option_of(error.field()) + ": " + error.reason(), kBadInput);
  } catch (const NothingTuned& error) {
    code = fail(output, "bad_input",
                std::string(error.what()) + "; start with: moetune search " + error.kernel() + " --problem " +
                    error.problem(),
                kBadInput);
  } catch (const BadInput& error) {
    code = fail(output, "bad_input", error.what(), kBadInput);
  } catch (const BrokenEnvironment& error) {
    code = fail(output, "broken_environment", error.what(), kBrokenEnvironment);
  } catch (const std::filesystem::filesystem_error& error) {
    const std::string place = error.path1().string();
    code = fail(output, "broken_environment", (place.empty() ? "" : place + ": ") + error.code().message(),
                kBrokenEnvironment);
  } catch (const std::system_error& error) {  // a thread that cannot start, say
    code = fail(output, "broken_environment",
                error.code() == std::errc::resource_unavailable_try_again
                    ? "cannot start a thread: the limit on threads and processes ('ulimit -u') or on memory "
                      "('ulimit -v') is reached"
                    : std::string("the system refused a resource (") + error.code().message() +
                          "); see 'ulimit -a' for limits on processes, memory and files",
                kBrokenEnvironment);
  } catch (const std::bad_alloc&) {
    code = fail(output, "broken_environment", "out of memory; see 'ulimit -v' for this shell's limit",
                kBrokenEnvironment);
  } catch (const std::exception& error) {
    code = fail(output, "internal", std::string("a bug in moetune: ") + error.what(), kBrokenEnvironment);
  }
  try {
    output.finish();
  } catch (const BrokenEnvironment& error) {
    output.note(std::string("moetune: ") + error.what());
    return kBrokenEnvironment;
  }
  return code;
}

}  // namespace moetune
