#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <ranges>

#include "base/error.h"
#include "base/lists.h"
#include "cache/pack_signature.h"
#include "cli/command.h"
#include "cli/options.h"
#include "serve/service.h"

namespace moetune {
namespace {

class ServeCommand : public Command {
 public:
  std::string_view name() const override { return "serve"; }
  std::string_view summary() const override { return "run a service that tunes for others, over HTTP"; }
  std::string_view details() const override {
    return "One a host: a queue beside the cache, a worker a GPU, a page at /. `moetune search --server URL` uses it.\n"
           "What was queued or running when it ended goes on at the next start. Any address but loopback needs\n"
           "--token-file, and TLS or a proxy that adds it (docs/service.md).\n";
  }
  void declare(OptionTable& table) override;
  int run(Output& output, std::stop_token stop) override;

 private:
  ServiceOptions options_;
  std::string listen_ = "127.0.0.1:7878", devices_, hosts_, queue_;
  bool no_publish_ = false;
  double most_gb_ = JobLimits{}.bytes * 1e-9;
  double process_gb_ = 16;
};

void ServeCommand::declare(OptionTable& table) {
  table.text("listen", "ADDRESS:PORT", listen_, "where to listen; port 0 takes a free one");
  table.text("device", "DEVICES", devices_,
             "a worker each, with commas between: cuda:0,cuda:1 or replay:FILE; by default every GPU");
  declare_cache_path(table, options_.cache);
  table.text("queue", "FILE", queue_, "the jobs, of this service alone; by default beside the cache");
  table.text("packs", "DIR", options_.packs, "serve the packs of this folder, and keep service.pack there");
  table.text("sign-key", "FILE", options_.sign_key, "sign service.pack with this key of `moetune cache new-key`");
  table.flag("no-publish", no_publish_, "with --packs: do not write service.pack");
  table.only_with("packs", {"sign-key", "no-publish"});
  table.text("token-file", "FILE", options_.token_file, "lines 'read|miss|submit TOKEN'; of mode 0600");
  table.without_setting({"token-file"});  // which is a client's
  table.text("tls-cert", "FILE", options_.http.tls_cert, "a certificate with its chain, as PEM");
  table.text("tls-key", "FILE", options_.http.tls_key, "its private key, as PEM");
  table.flag("behind-tls-proxy", options_.behind_tls_proxy, "a proxy in front adds TLS, and X-Forwarded-For");
  table.text("host", "NAMES", hosts_, "names by which clients reach the service, with commas between");
  table.whole("max-budget", options_.limits.budget, 1, 1'000'000'000, "trials that one search may ask for");
  table.span("max-time", options_.limits.seconds, "that one job may take");
  table.positive("max-gb", "GB", "number of gigabytes", most_gb_, "that one launch of a problem may move");
  table.positive("process-gb", "GB", "number of gigabytes", process_gb_,
                 "of host memory that one worker or compiler may hold; it is killed past that");
  table.span("quiet-wait", options_.quiet.wait_s, "how long a missed shape waits for a quiet GPU; then it is put off");
  table.whole("threads", options_.threads, 0, 1024,
              "compilers of each device, at most 16: more count as 16; 0: the cores divided by the devices");
}

std::vector<std::string> words_of(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, ',');
  std::vector<std::string> words(parts.begin(), parts.end());
  std::erase(words, "");
  return words;
}

// "" if all devices are GPUs.
std::string recorded_text(const std::vector<std::string>& devices) {
  const std::string recorded =
      joined(std::views::filter(devices, [](const std::string& device) { return device.starts_with("replay:"); }));
  if (recorded.empty()) return "";
  return "RECORDED: " + recorded +
         (devices.size() == 1 ? " is no GPU. It replays" : ": these are no GPUs. They replay") +
         " measurements, and their winners enter no pack.";
}

int ServeCommand::run(Output& output, std::stop_token stop) {
  set_listen(options_.http, listen_);
  options_.devices = words_of(devices_);
  for (const std::string& host : words_of(hosts_)) options_.hosts.insert(host);
  options_.hosts.insert(options_.http.host);
  options_.queue = queue_;
  options_.publish = !no_publish_;
  options_.limits.bytes = most_gb_ * 1e9;
  options_.process_bytes = static_cast<std::uint64_t>(std::min(process_gb_ * 1e9, 1e18));
  if (!options_.sign_key.empty()) read_secret_key(options_.sign_key);  // report a bad key now
  const Service service(options_);
  output.result() << "Listening on " << service.url() << "/ with " << joined(service.devices()) << "; Ctrl-C ends it."
                  << std::endl;
  if (const std::string text = recorded_text(service.devices()); !text.empty()) output.note(text);
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  ended.wait(lock, stop, [] { return false; });
  output.note("Stopping; what runs goes back into the queue.");
  return kDone;
}

}  // namespace

std::unique_ptr<Command> make_serve_command() { return std::make_unique<ServeCommand>(); }

}  // namespace moetune
