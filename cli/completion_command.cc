#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/help.h"

namespace moetune {
namespace {

class CompletionCommand : public Command {
 public:
  std::string_view name() const override { return "completion"; }
  std::string_view summary() const override { return "print what makes a shell complete moetune's words"; }
  std::string_view details() const override {
    return "Bash: eval \"$(moetune completion bash)\" in ~/.bashrc. Zsh: moetune completion zsh > a file _moetune in a "
           "folder of fpath. Fish: moetune completion fish > ~/.config/fish/completions/moetune.fish. Kernels, "
           "presets, dimensions, configurations and the cache's keys are completed, too.\n";
  }
  std::vector<Action> actions() const override {
    return {{"bash", "", "for bash 4.2 or newer"}, {"zsh", "", "for zsh"}, {"fish", "", "for fish"}};
  }
  bool reads_settings() const override { return false; }
  void declare(OptionTable& table) override { table.positional("SHELL", shell_, true, "bash, zsh or fish"); }
  int run(Output& output, std::stop_token) override {
    const std::string script = completion_script(shell_);
    output.data() << script;
    output.document({{"shell", shell_}, {"script", script}});
    return kDone;
  }

 private:
  std::string shell_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() { return std::make_unique<CompletionCommand>(); }

}  // namespace moetune
