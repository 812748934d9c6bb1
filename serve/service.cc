#include "serve/service.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "retune/night_lock.h"
#include "serve/run/memory_watch.h"
#include "serve/run/served_devices.h"

namespace moetune {
namespace {

constexpr const char* kTunes[] = {"search", "range", "tune", "retune"};

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1"; }

void check_exposure(const ServiceOptions& options) {
  const bool has_tls = !options.http.tls_cert.empty();
  if (has_tls != !options.http.tls_key.empty())
    throw BadField(has_tls ? "tls_key" : "tls_cert", "a certificate and its key belong together; give both");
  if (has_tls && options.behind_tls_proxy)
    throw BadField("behind_tls_proxy", "with a certificate of its own the service needs no proxy's; give one of them");
  if (options.behind_tls_proxy && options.token_file.empty())
    throw BadField("behind_tls_proxy", "whom a proxy lets in can be anybody: that needs --token-file FILE");
  if (is_loopback(options.http.host)) return;
  if (options.token_file.empty())
    throw BadField("listen", options.http.host + " can be reached by others: that needs --token-file FILE");
  if (!has_tls && !options.behind_tls_proxy)
    throw BadField("listen", options.http.host +
                                 " can be reached by others: that needs --tls-cert and --tls-key, or "
                                 "--behind-tls-proxy if a proxy in front adds TLS");
}

// Locks a queue's file, or a folder into which a process publishes (nothing is written there), for one process alone.
// The operating system frees it when the process ends, however that ends. A file system without locks has none.
class FileLock {
 public:
  // A file that is new is made. `busy`: the sentence if another process holds it.
  FileLock(const std::filesystem::path& path, const std::string& busy) {
    const int flags = std::filesystem::is_directory(path) ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT | O_NOFOLLOW;
    file_ = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0644);
    if (file_ < 0) throw BrokenEnvironment("cannot make the lock " + path.string() + ": " + std::strerror(errno));
    if (::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::close(file_);
    throw BrokenEnvironment(busy);
  }
  FileLock(const FileLock&) = delete;
  // A child that has been forked and is not yet its own program shares the open file: closing alone would leave it
  // the lock.
  ~FileLock() {
    ::flock(file_, LOCK_UN);
    ::close(file_);
  }

 private:
  int file_ = -1;
};

// Publishes on a thread of its own, so that no GPU waits for it; what is requested meanwhile is one more time. Ends
// when what was requested is done.
class Publisher {
 public:
  explicit Publisher(std::function<void()> publish)
      : publish_(std::move(publish)), thread_([this](std::stop_token stop) { work(stop); }) {}

  void request() {
    {
      const std::lock_guard lock(mutex_);
      is_due_ = true;
    }
    due_.notify_all();
  }

 private:
  void work(const std::stop_token& stop) {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        due_.wait(lock, stop, [&] { return is_due_; });
        if (!is_due_) return;
        is_due_ = false;
      }
      publish_();
    }
  }

  const std::function<void()> publish_;
  std::mutex mutex_;
  std::condition_variable_any due_;
  bool is_due_ = false;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace

struct Service::Parts {
  explicit Parts(ServiceOptions given)
      : options(std::move(given)),
        queue_path(queue_file(options)),
        queue(queue_path, options.jobs),
        access(options.hosts, options.behind_tls_proxy || !options.http.tls_cert.empty()),
        shelf(options.packs, options.most_pack_bytes) {}

  static std::filesystem::path queue_file(const ServiceOptions& options) {
    open_or_create_cache(options.cache);  // and its folder
    return options.queue.empty() ? std::filesystem::path(options.cache.file().string() + "-jobs") : options.queue;
  }

  void lock_devices() {
    std::map<std::filesystem::path, std::string> files;  // with the GPU's UUID
    served = served_devices(options.devices, options.cache.file());
    for (const ServedDevice& device : served) {
      if (std::find(devices.begin(), devices.end(), device.name) != devices.end())
        throw BadField("device", device.name + " is named twice");
      devices.push_back(device.name);
      files.emplace(device.files, device.uuid);
    }
    for (const auto& [file, uuid] : files) locks.push_back(std::make_unique<DeviceLock>(file, uuid));
  }

  bool publishes() const { return options.publish && !options.packs.empty(); }

  void lock_files() {
    queue_lock.emplace(queue_path.string() + ".lock",
                       "another service works on the queue " + queue_path.string() +
                           "; stop it, or give this one a queue of its own with --queue FILE");
    if (!publishes()) return;
    packs_lock.emplace(options.packs, "another service publishes its winners into " + options.packs +
                                          "; stop it, or give this one a folder of its own or --no-publish");
  }

  // After a job that may have changed a winner.
  void publish_after(const JobRecord& job) {
    if (std::find(std::begin(kTunes), std::end(kTunes), job.kind) != std::end(kTunes)) publisher->request();
  }

  void publish() {
    try {
      if (shelf.publish(options.cache, options.sign_key)) log.append("packs", 0, {{"changed", true}});
    } catch (const std::exception& error) {  // the folder's disk is full, say: the job is done all the same
      log.warn("packs", error.what());
    }
  }

  void watch_memory() {
    memory.emplace(options.process_bytes, [this](const std::string& text) {
      metrics.count_ended_process();
      log.warn("memory", text);
    });
  }

  // Decides whether a device may run a client's job that names none. Empty if all devices are alike, so that no queue
  // is read for it. Accepts a job of an earlier service that cannot be parsed, so that it ends with the reason.
  std::function<bool(const JobRecord&, const std::string&)> choice() const {
    if (served.size() < 2 || std::ranges::none_of(served, &ServedDevice::recorded)) return {};
    return [this](const JobRecord& job, const std::string& device) {
      try {
        const nlohmann::json request = parse_json(job.request, "the stored request");
        return is_to_run(parse_job_request(job.kind, request, options.limits, devices), device, served);
      } catch (const BadInput&) {
        return true;
      }
    };
  }

  // 0 while the server begins or ends.
  template <typename Figure>
  Figure figure(Figure (HttpServer::*get)() const) const {
    const HttpServer* const own = listening;
    return own == nullptr ? Figure{} : (own->*get)();
  }

  std::uint64_t threads_each() const {
    if (options.threads > 0) return options.threads;
    return std::max<std::uint64_t>(1, std::thread::hardware_concurrency() / devices.size());
  }

  ServiceOptions options;
  const std::filesystem::path queue_path;
  std::vector<ServedDevice> served;
  std::vector<std::string> devices;  // their names
  std::vector<std::unique_ptr<DeviceLock>> locks;
  std::optional<FileLock> queue_lock, packs_lock;
  JobQueue queue;
  EventLog log;
  Metrics metrics;
  Access access;
  PackShelf shelf;
  std::optional<Publisher> publisher;
  std::optional<MemoryWatch> memory;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<Api> api;
  // `server` for its own handlers, which run before that is set and until it is destroyed.
  std::atomic<const HttpServer*> listening{nullptr};
  std::unique_ptr<HttpServer> server;  // last: its handlers use all of the above
};

Service::Service(ServiceOptions options) {
  check_exposure(options);
  if (options.cache.none) throw BadField("no_cache", "a service needs a cache: it stores what it finds");
  parts_ = std::make_unique<Parts>(std::move(options));
  Parts& parts = *parts_;
  if (!parts.options.token_file.empty()) parts.access.read_tokens(parts.options.token_file);
  parts.lock_devices();
  parts.lock_files();
  parts.queue.take_over();
  if (parts.options.process_bytes > 0) parts.watch_memory();
  if (parts.publishes()) {
    parts.publisher.emplace([&parts] { parts.publish(); });
    parts.publisher->request();  // what an earlier service has left, or another key
  }
  parts.scheduler = std::make_unique<Scheduler>(
      parts.queue, parts.log, parts.metrics,
      SchedulerSettings{.devices = parts.devices,
                        .runner = {.cache = parts.options.cache, .threads = parts.threads_each()},
                        .limits = parts.options.limits,
                        .quiet = parts.options.quiet,
                        .fits = parts.choice(),
                        .ended = [&parts](const JobRecord& job) {
                          if (parts.publisher) parts.publish_after(job);
                        }});
  parts.api = std::make_unique<Api>(
      ApiParts{.queue = parts.queue,
               .scheduler = *parts.scheduler,
               .log = parts.log,
               .metrics = parts.metrics,
               .access = parts.access,
               .shelf = parts.shelf,
               .cache = parts.options.cache,
               .limits = parts.options.limits,
               .devices = parts.devices,
               .served = parts.served,
               .connections = [&parts] { return parts.figure(&HttpServer::connections); },
               .closed_connections = [&parts] { return parts.figure(&HttpServer::closed_connections); }},
      parts.options.api);
  HttpServerOptions& http = parts.options.http;
  http.behind_proxy = parts.options.behind_tls_proxy;
  http.is_quick = Api::is_quick;
  http.refuse_head = [&parts](const ServerRequest& request) { return parts.api->refuse_head(request); };
  http.most_body = Api::most_body;
  http.on_refusal = [&parts](ServerResponse& response) { parts.api->complete(response); };
  if (!is_loopback(http.host)) {  // others are to find room
    if (http.max_connections_each == 0) http.max_connections_each = http.max_connections / 8;
    if (http.max_streams_each == 0) http.max_streams_each = http.max_streams / 8;
  }
  parts.server =
      std::make_unique<HttpServer>(http, [&parts](const ServerRequest& request) { return parts.api->handle(request); });
  parts.listening = parts.server.get();
}

Service::~Service() { parts_->listening = nullptr; }

std::string Service::url() const {
  const HttpServerOptions& http = parts_->options.http;
  const std::string host = http.host.find(':') == std::string::npos ? http.host : "[" + http.host + "]";
  return (http.tls_cert.empty() ? "http://" : "https://") + host + ":" + std::to_string(parts_->server->port());
}

const std::vector<std::string>& Service::devices() const { return parts_->devices; }

void set_listen(HttpServerOptions& http, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const auto bad = [&] { return BadField("listen", "'" + text + "' is no ADDRESS:PORT such as 127.0.0.1:7878"); };
  if (colon == std::string::npos || colon == 0) throw bad();
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string digits = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), http.port);
  if (error != std::errc() || end != digits.data() + digits.size()) throw bad();
  http.host = host == "localhost" ? "127.0.0.1" : host;
}

}  // namespace moetune
