// One subcommand: a name, its options and what it does. One file a subcommand, NAME_command.cc; the list of
// all is in commands.cc.
//
// A command object serves one run: declare() binds its options to its own members, run() uses them. Errors
// are exceptions (base/error.h), turned into messages and exit codes by the command line. All of cli/ runs on
// the main thread, except for the progress line's clock and the thread that waits for signals.
#pragma once

#include <memory>
#include <stop_token>
#include <string_view>
#include <vector>

#include "cli/option_table.h"
#include "cli/output.h"

namespace moetune {

enum ExitCode : int {
  kDone = 0,
  kNothingFound = 1,  // no valid configuration; verify: a wrong result; cache check: damage
  kBadInput = 2,
  kBrokenEnvironment = 3,
  // With --exit-code: retune has improved something, compare found something slower. prepare: something is left.
  kChanged = 4,
};

// A word that may follow the command as its first operand.
struct Action {
  std::string_view name;
  std::string_view operands;  // "KEY FOLDER"; "" for none
  std::string_view doc;
};

class Command {
 public:
  virtual ~Command() = default;

  virtual std::string_view name() const = 0;
  virtual std::string_view summary() const = 0;
  // More sentences for --help, which wraps them: line ends mean nothing.
  virtual std::string_view details() const { return ""; }
  virtual std::vector<Action> actions() const { return {}; }
  // Whether the user's configuration stands for options that are not given.
  virtual bool reads_settings() const { return true; }
  virtual void declare(OptionTable& options) = 0;
  virtual int run(Output& output, std::stop_token stop) = 0;
};

std::unique_ptr<Command> make_search_command();
std::unique_ptr<Command> make_tune_command();
std::unique_ptr<Command> make_retune_command();
std::unique_ptr<Command> make_workloads_command();
std::unique_ptr<Command> make_prepare_command();
std::unique_ptr<Command> make_record_command();
std::unique_ptr<Command> make_kernels_command();
std::unique_ptr<Command> make_compile_command();
std::unique_ptr<Command> make_devices_command();
std::unique_ptr<Command> make_space_command();
std::unique_ptr<Command> make_import_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_report_command();
std::unique_ptr<Command> make_compare_command();
std::unique_ptr<Command> make_cache_command();
std::unique_ptr<Command> make_serve_command();
std::unique_ptr<Command> make_sync_command();
std::unique_ptr<Command> make_doctor_command();
std::unique_ptr<Command> make_completion_command();
std::unique_ptr<Command> make_man_command();

std::vector<std::unique_ptr<Command>> all_commands();  // in the order of the help

}  // namespace moetune
