#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/replace_file.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/text.h"

namespace moetune {
namespace {

class ManCommand : public Command {
 public:
  std::string_view name() const override { return "man"; }
  std::string_view summary() const override { return "print a man page, or write all of them into a folder"; }
  std::string_view details() const override {
    return "moetune man search | man -l - shows one; packages install those of --folder.\n";
  }
  bool reads_settings() const override { return false; }
  void declare(OptionTable& table) override {
    table.positional("COMMAND", command_, false, "the command; by default the tool");
    table.text("folder", "FOLDER", folder_, "write moetune.1, moetune-search.1 ... there");
  }
  int run(Output& output, std::stop_token) override {
    if (!folder_.empty() && !command_.empty())
      throw BadInput("--folder takes the pages of all commands; leave out " + command_);
    if (!folder_.empty()) return write_all(output);
    const std::string page = command_.empty() ? manual_page(nullptr) : page_of_command();
    output.data() << page;
    output.document({{"page", page}});
    return kDone;
  }

 private:
  std::string page_of_command() const {
    const auto commands = all_commands();
    return manual_page(find_by_name("command", command_, commands, &Command::name).get());
  }

  int write_all(Output& output) const {
    namespace fs = std::filesystem;
    fs::create_directories(folder_);
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    const auto write = [&](const std::string& name, const std::string& page) {
      replace_file(fs::path(folder_) / (name + ".1"), page);
      files.push_back(name + ".1");
    };
    write("moetune", manual_page(nullptr));
    for (const auto& command : all_commands())
      write("moetune-" + std::string(command->name()), manual_page(command.get()));
    output.result() << folder_ << ": " << counted_text(static_cast<std::int64_t>(files.size()), "page") << "\n";
    output.document({{"folder", folder_}, {"pages", files}});
    return kDone;
  }

  std::string command_, folder_;
};

}  // namespace

std::unique_ptr<Command> make_man_command() { return std::make_unique<ManCommand>(); }

}  // namespace moetune
