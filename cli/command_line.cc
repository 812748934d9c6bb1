#include "cli/command_line.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/suggest.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/settings.h"
#include "cli/text.h"
#include "jobs/stored/stored_candidate.h"

namespace moetune {
namespace {

using Json = nlohmann::ordered_json;

// docs/environment.md has the same names.
constexpr Described kVariables[] = {
    {"MOETUNE_NVRTC", "the NVRTC library to compile with (libnvrtc.so.13), or its folder"},
    {"CUDA_HOME, CUDA_PATH", "a CUDA toolkit, whose NVRTC is taken"},
    {"MOETUNE_DATA_DIR", "a folder with templates/, spaces/ and recordings, instead of those in the binary"},
    {"MOETUNE_KERNELS", "folders with kernels of your own, with colons between them: docs/new_kernel.md"},
    {"XDG_CACHE_HOME, HOME", "where the cache lies: $XDG_CACHE_HOME/moetune/moetune.db, else ~/.cache/moetune/"},
    {"XDG_CONFIG_HOME", "where the configuration lies: $XDG_CONFIG_HOME/moetune/config, else ~/.config/moetune/"},
    {"CUDA_VISIBLE_DEVICES", "the GPUs that the driver shows"},
    {"COLUMNS", "the width of tables; by default the terminal's"},
    {"NO_COLOR", "set to anything: a report without colours"},
    {"PAGER, LESS", "what shows long lists on a terminal (less), and its options; cat: no pager"},
    {"LC_ALL, LC_CTYPE, LANG", "the locale: ASCII alone is printed if it does not write UTF-8"},
    {"TERM", "unset or dumb: progress in lines instead of one that is drawn anew"},
    {"PATH, TMPDIR", "where compile finds cuobjdump and nvdisasm, and puts what they read"},
    {"SSL_CERT_FILE, SSL_CERT_DIR", "certificates to trust for https instead of the system's"},
    {"MOETUNE_LIBCUDA, MOETUNE_LIBNVML", "other driver libraries, for tests"},
    {"MOETUNE_REPLAY_PACE_MS", "what a trial of a recording takes, for simulations"},
    {"NVTX_INJECTION64_PATH", "the profiler that hears moetune's ranges: docs/profiling.md"},
    {"MOETUNE_SYSFS", "read in place of /sys, for NUMA nodes"},
    {"MOETUNE_NIGHT_MEMBER", "set by retune for the processes that it starts, one a GPU"},
    {"MOETUNE_RUNTIME, MOETUNE_PIN", "for the runtime library: docs/runtime.md"},
    {"MOETUNE_TRUSTED_KEYS", "the same: whose packs it loads"},
    {"MOETUNE_TORCH_KERNELS", "python: PyTorch calls the operators' kernels in Python"},
    {"MOETUNE_VLLM_EXPERTS", "1: vLLM's unquantized experts are moetune's: docs/servers.md"},
    {"TVM_FFI_DISABLE_TORCH_C_DLPACK", "python: set for a moment by import moetune"}};

void show_environment(Output& output) {
  Table table({});
  Json variables = Json::object();
  for (const auto& [name, doc] : kVariables) {
    table.add({std::string(name), std::string(doc)});
    variables[std::string(name)] = doc;
  }
  output.result() << "Environment variables that moetune reads:\n\n" << table.text("  ", output.page_columns());
  output.document({{"environment", variables}});
}

void show_help(Command& command, const std::vector<std::string>& arguments, Output& output) {
  output.result() << command_help(command, arguments, output.page_columns());
  output.document({{"command", command.name()}, {"help", command_help(command, arguments, 80)}});
}

std::unique_ptr<Command> find_command(const std::string& name) {
  auto commands = all_commands();
  return std::move(find_by_name("command", name, commands, &Command::name));
}

Colour colour_of(const std::string& word) {
  return word == "always" ? Colour::always : word == "never" ? Colour::never : Colour::automatic;
}

bool holds(const std::vector<std::string>& arguments, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      arguments, [&](const std::string& argument) { return std::ranges::find(words, argument) != words.end(); });
}

// A request's field is set by the option of the same name.
std::string option_of(std::string field) {
  if (field == "kernel") return "KERNEL";
  std::replace(field.begin(), field.end(), '_', '-');
  return "--" + field;
}

int run_parsed(Command& command, const OptionTable& options, Output& output) {
  Interrupt interrupt;
  try {
    const int code = command.run(output, interrupt.token());
    return interrupt.token().stop_requested() ? interrupt.exit_code() : code;
  } catch (const BadField& error) {
    const std::string option = option_of(error.field());
    const std::string file = options.source_of(option.substr(std::min<std::size_t>(2, option.size())));
    throw BadInput((file.empty() ? option : file + ": " + option.substr(2)) + ": " + error.reason());
  }
}

int run_command(const std::string& name, const std::vector<std::string>& arguments, Output& output) {
  const std::unique_ptr<Command> command = find_command(name);
  use_kernel_folders(arguments);
  OptionTable options;
  CommonOptions common;
  declare_all(*command, options, common);
  // Help wins over whatever else is wrong with the line.
  if (holds(arguments, {"--help", "-h"})) {
    if (holds(arguments, {"--wide"})) output.set_wide();
    show_help(*command, arguments, output);
    return kDone;
  }
  const bool reads = command->reads_settings() && !holds(arguments, {"--no-config"});
  options.parse(arguments, reads ? read_settings() : std::vector<Setting>());
  if (common.wide) output.set_wide();
  if (common.quiet) output.set_quiet();
  output.set_colour(colour_of(common.color));
  return run_parsed(*command, options, output);
}

int dispatch(const std::vector<std::string>& arguments, Output& output) {
  std::vector<std::string> words = arguments;
  if (words.size() >= 2 && words[0] == "help" && words[1] == "environment") {
    show_environment(output);
    return kDone;
  }
  // `moetune help search` is `moetune search --help`.
  if (words.size() >= 2 && words[0] == "help" && !words[1].starts_with("-")) {
    words.erase(words.begin());
    words.push_back("--help");
  }
  std::erase_if(words, [leading = true](const std::string& word) mutable {
    leading = leading && word == "--json";
    return leading;
  });
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    (words.empty() ? output.errors() : output.result()) << tool_help(output.page_columns());
    output.document({{"help", tool_help(80)}});
    return words.empty() ? kBadInput : kDone;
  }
  if (words[0] == "--version" || words[0] == "-V" || words[0] == "version") {
    output.result() << "moetune " << version() << "\n";
    output.document({{"version", version()}});
    return kDone;
  }
  if (words[0] == "__complete") {
    use_kernel_folders(words);
    output.result() << completions({words.begin() + 1, words.end()});
    return kDone;
  }
  if (words[0].starts_with("-")) {
    throw BadInput("options come after the command: moetune COMMAND " + words[0]);
  }
  return run_command(words[0], {words.begin() + 1, words.end()}, output);
}

int fail(Output& output, const char* kind, const std::string& message, int code) {
  output.warn("moetune: " + message);
  output.document({{"error", {{"kind", kind}, {"message", message}}}});
  return code;
}

}  // namespace

std::span<const Described> environment_variables() { return kVariables; }

int run_command_line(const std::vector<std::string>& arguments) {
  const bool completes = !arguments.empty() && arguments.front() == "__complete";
  const bool json = !completes && holds(arguments, {"--json"});
  Output output(json);
  int code = kDone;
  try {
    code = dispatch(arguments, output);
  } catch (const NothingTuned& error) {
    code = fail(
        output, "bad_input",
        std::string(error.what()) + "; start with: moetune search " + error.kernel() + " --problem " + error.problem(),
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
    code =
        fail(output, "broken_environment", "out of memory; see 'ulimit -v' for this shell's limit", kBrokenEnvironment);
  } catch (const std::exception& error) {
    code = fail(output, "internal", std::string("a bug in moetune: ") + error.what(), kBrokenEnvironment);
  }
  try {
    output.finish();
  } catch (const BrokenEnvironment& error) {
    output.warn(std::string("moetune: ") + error.what());
    return kBrokenEnvironment;
  }
  return code;
}

}  // namespace moetune
