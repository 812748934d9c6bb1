#include "base/error.h"
#include "cli/command.h"
#include "cli/remote_search.h"
#include "cli/text.h"
#include "jobs/session/documents.h"
#include "serve/api/token_file.h"
#include "sync/sync.h"

namespace moetune {
namespace {

class SyncCommand : public Command {
 public:
  std::string_view name() const override { return "sync"; }
  std::string_view summary() const override {
    return "a server's sidecar: post the shapes it missed to a service, and install the packs that come of them";
  }
  std::string_view details() const override {
    return "Posts the files *misses.json in DIR, which moetune_write_misses wrote, and installs the service's packs\n"
           "there: size, SHA-256, signature (--trust) and content are checked first. The server takes them by\n"
           "moetune_refresh. While the service is down DIR stays as it is (docs/sync.md). Ends at SIGTERM.\n"
           "Exit codes of --once: 0 all done, 1 something was refused, 3 the service or DIR failed.\n";
  }
  void declare(OptionTable& table) override {
    table.positional("URL", request_.service.url, true, "the service: http://host:7878 or https://...");
    table.positional("DIR", folder_, true, "the folder that the server opens, and writes its misses to");
    table.text("token-file", "FILE", token_file_, "the service's token, in a file of mode 0600");
    table.span("every", request_.every_s, "how often, at least 1s");
    table.text("ca-file", "FILE", request_.service.ca_file, "certificates to trust for https instead of the system's");
    table.text("trust", "FILE", trust_, "install only packs signed by this public key (FILE.pub of cache new-key)");
    table.flag("once", request_.once, "one round, then end");
  }
  int run(Output& output, std::stop_token stop) override;

 private:
  void read_options(const Output& output);
  void report(const SyncRound& round, const Output& output);

  std::string folder_, token_file_, trust_;
  SyncRequest request_;
  SyncRound total_;
  std::string last_notes_;
};

void SyncCommand::read_options(const Output& output) {
  request_.folder = folder_;
  if (request_.every_s < 1) throw BadField("every", "at least 1s; a service is not to be asked more often");
  if (!trust_.empty()) request_.trusted_keys = {trust_};
  if (token_file_.empty()) return;
  request_.service.token = read_client_token(token_file_);
  warn_of_token(request_.service.url, token_file_, output);
}

void SyncCommand::report(const SyncRound& round, const Output& output) {
  total_.miss_files += round.miss_files;
  total_.misses += round.misses;
  total_.failure = round.failure;
  total_.warnings = round.warnings;
  for (const std::string& name : round.installed) total_.installed.push_back(name);
  if (round.miss_files > 0)
    output.result() << "posted " << round.misses << (round.misses == 1 ? " miss of " : " misses of ")
                    << round.miss_files << (round.miss_files == 1 ? " file" : " files") << std::endl;
  for (const std::string& name : round.installed) output.result() << "installed " << name << std::endl;
  std::string notes;
  for (const std::string& warning : round.warnings) notes += warning + "\n";
  notes += round.failure;
  if (notes == last_notes_) return;  // of the round before
  last_notes_ = notes;
  for (const std::string& warning : round.warnings) output.warn(warning);
  if (!round.failure.empty() && !request_.once) output.warn(round.failure + "; what is there stays");
}

int SyncCommand::run(Output& output, std::stop_token stop) {
  read_options(output);
  const bool failed = sync(
      request_, [&](const SyncRound& round) { report(round, output); }, stop);
  if (failed) throw BrokenEnvironment(total_.failure);
  if (request_.once && total_.miss_files == 0 && total_.installed.empty() && total_.warnings.empty())
    output.result() << "nothing new\n";
  output.document({{"folder", folder_},
                   {"miss_files", total_.miss_files},
                   {"misses", total_.misses},
                   {"installed", total_.installed},
                   {"warnings", total_.warnings}});
  return request_.once && !total_.warnings.empty() ? kNothingFound : kDone;
}

}  // namespace

std::unique_ptr<Command> make_sync_command() { return std::make_unique<SyncCommand>(); }

}  // namespace moetune
