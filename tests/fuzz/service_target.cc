// Bytes sent to a service: it answers in HTTP or hangs up, never with a 500, and goes on to answer others.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

#include "http/http_client.h"
#include "replay/recording.h"
#include "serve/service.h"
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/target.h"
#include "tests/replay/sample_recording.h"

namespace moetune::fuzz {
namespace {

std::string posted(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

std::string asked(const std::string& method, const std::string& path) {
  return method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
}

const std::vector<std::string> kRequests = {
    posted("/v1/jobs", R"({"kind":"search","priority":3,"deadline_s":9,"request":{"budget":4,"seed":7}})"),
    posted("/v1/jobs",
           R"({"kind":"range","request":{"kernel":"decode_attention","over":"batch=1..4,context=512..1k"}})"),
    posted("/v1/jobs", R"({"kind":"tune","request":{"workloads":{"workloads":[{"kernel":"decode_kernel"}]}}})"),
    posted("/v1/jobs", R"({"kind":"bench","request":{"kernel":"router","problem":"tokens=4","rounds":3}})"),
    posted("/v1/misses", R"({"misses":[{"kernel":"decode_kernel","problem":"elements=4096","count":3}]})"),
    posted("/v1/misses",
           R"({"misses":[{"kernel":"router","problem":"tokens=4","count":3,"hardware":"NVIDIA H200"},{"kernel":7}]})"),
    posted("/v1/jobs", R"({"kind":"search","request":{"kernel":"router","timing":"alone","budget":1}})"),
    posted("/v1/session", R"({"token":"aaaaaaaaaaaaaaaa"})"),
    "POST /v1/misses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
    "Transfer-Encoding: chunked\r\n\r\n6;a=b;c=\"d\"\r\n{\"miss\r\n8;e\r\nes\": []}\r\n0;f\r\nX-A: b\r\n"
    "Authorization: Bearer x\r\n\r\n",
    asked("GET", "/v1/packs/service.pack%2fsignature"),
    posted("/v1/jobs/1/cancel", "{}"),
    asked("GET", "/v1/jobs?state=queued&kind=search&after=0&limit=10"),
    asked("DELETE", "/v1/jobs/1"),
    asked("DELETE", "/v1/jobs/1?ticket=0123456789abcdef"),
    asked("HEAD", "/v1/packs"),
    asked("GET", "/v1/winners"),
    asked("GET", "/v1/packs/service.pack/signature"),
    asked("GET", "/page/live.js"),
    asked("GET", "/"),
    asked("GET", "/metrics")};

class ServiceTarget : public Target {
 public:
  explicit ServiceTarget(const Folder& folder)
      : mutator_(kRequests, {"\r\n",
                             "%2e%2e%2f",
                             "%2f",
                             ";a=",
                             "0\r\n",
                             "..",
                             "\"",
                             "{",
                             "[",
                             "Transfer-Encoding: chunked\r\n",
                             "HTTP/1.0",
                             "Content-Length: 99999999999\r\n",
                             "Last-Event-ID: -1\r\n",
                             "Origin: null\r\n",
                             "Host: b\r\n",
                             "X-Forwarded-For: 1.2.3.4\r\n",
                             "%00",
                             "1e308",
                             "If-None-Match: *\r\n",
                             "Expect: 100-continue\r\n",
                             "\xff"}) {
    write_recording(sample_recording(), folder / "r.zst");
    ::setenv("MOETUNE_NVRTC", "/nonexistent", 1);
    ServiceOptions options;
    options.devices = {"replay:" + (folder / "r.zst").string()};
    options.cache.path = (folder / "service.db").string();
    options.limits.budget = 8;
    options.limits.seconds = 10;
    options.api = {1e9, 1e9, 1e9, 1e9, 1e9, 1e9};
    service_ = std::make_unique<Service>(options);
  }

  std::string make(Random& random) override { return mutator_.make(random); }

  void run(const std::string& input) override {
    const std::string answer = exchange(input);
    if (!answer.empty() && !answer.starts_with("HTTP/1."))
      throw Finding("an answer is no HTTP: " + answer.substr(0, 80));
    if (answer.substr(0, 12).ends_with(" 500")) throw Finding("a request ends with 500: " + answer.substr(0, 400));
    if (http_request({.url = service_->url() + "/healthz"}).status != 200) throw Finding("the service is not well");
  }

 private:
  // What the service says until it hangs up, or for long enough.
  std::string exchange(const std::string& input) const {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(parse_url(service_->url()).port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience = {.tv_sec = 0, .tv_usec = 200'000};
    ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::string answer;
    if (::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      ::send(client, input.data(), input.size(), MSG_NOSIGNAL);
      ::shutdown(client, SHUT_WR);
      char bytes[4096];
      for (ssize_t got = 0; answer.size() < 65'536 && (got = ::recv(client, bytes, sizeof bytes, 0)) > 0;)
        answer.append(bytes, static_cast<std::size_t>(got));
    }
    ::close(client);
    return answer;
  }

  const Mutator mutator_;
  std::unique_ptr<Service> service_;
};

}  // namespace

std::unique_ptr<Target> service_target(const Folder& folder) { return std::make_unique<ServiceTarget>(folder); }

}  // namespace moetune::fuzz
