// The HTTP server: what it bounds, whom it refuses and how, and that nobody waits for another's request.
#include <atomic>
#include <limits>

#include "cache/file/database.h"
#include "http/http_server.h"
#include "tests/serve/raw_http.h"
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

using Clock = std::chrono::steady_clock;

std::uint16_t port_of(const RunningService& running) {
  const std::string url = running.service->url();
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

std::string answer_to(std::uint16_t port, const std::string& request) {
  const RawConnection connection(port);
  connection.send(request);
  return connection.rest();
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

TEST_CASE("HEAD is GET without the body, a whole URL its path, two Hosts are refused, headers are bounded") {
  RunningService running;
  running.start();
  const std::uint16_t port = port_of(running);
  const std::string end = "Host: localhost\r\nConnection: close\r\n\r\n";
  const std::string whole = answer_to(port, "GET /healthz HTTP/1.1\r\n" + end);
  const std::string head = answer_to(port, "HEAD /healthz HTTP/1.1\r\n" + end);
  CHECK(head.starts_with("HTTP/1.1 200"));
  CHECK(head.ends_with("\r\n\r\n"));
  CHECK(head == whole.substr(0, whole.find("\r\n\r\n") + 4));
  CHECK(answer_to(port, "GET http://localhost/healthz HTTP/1.1\r\n" + end).starts_with("HTTP/1.1 200"));
  CHECK(says(answer_to(port, "GET http://localhost?x=1 HTTP/1.1\r\n" + end), "HTTP/1.1 400"));
  CHECK(answer_to(port, "HEAD /v1/events HTTP/1.1\r\n" + end).ends_with("\r\n\r\n"));
  CHECK(says(answer_to(port, "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n" + end), "HTTP/1.1 400"));
  CHECK(
      says(answer_to(port, "GET /healthz HTTP/1.1\r\nX: " + std::string(20'000, 'x') + "\r\n" + end), "HTTP/1.1 431"));
}

TEST_CASE("what the handler does not see is refused with the same headers, and counted") {
  RunningService running;
  running.start();
  const std::uint16_t port = port_of(running);
  for (const std::string& request :
       {std::string("no HTTP\r\n\r\n"),
        std::string("GET /%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")}) {
    const std::string answer = answer_to(port, request);
    CAPTURE(answer);
    CHECK(says(answer, "HTTP/1.1 400"));
    CHECK(says(answer, "X-Content-Type-Options: nosniff\r\n"));
    CHECK(says(answer, "Content-Security-Policy: default-src 'none'"));
  }
  CHECK(says(running.ask("GET", "/metrics").body, "moetune_http_responses_total{status=\"400\"} 2\n"));
}

TEST_CASE("connections and streams have room for every address") {
  RunningService running;
  running.options.http.max_connections = 8;
  running.options.http.max_connections_each = 3;
  running.options.http.max_streams = 2;
  running.options.http.max_streams_each = 1;
  running.start();
  const std::uint16_t port = port_of(running);
  const std::string watch = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const RawConnection first(port);
  first.send(watch);
  CHECK(says(first.piece(), "HTTP/1.1 200"));
  const RawConnection second(port), third(port);
  second.send(watch);
  CHECK(says(second.rest(), "Too many streams of one address."));
  const RawConnection watcher(port, "127.0.0.5");
  CHECK(within_a_while([&] {  // the server lets go of it
    watcher.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return says(watcher.answer(), "moetune_http_connections 3\n");
  }));
  const RawConnection other(port, "127.0.0.2");
  other.send(watch);
  CHECK(says(other.piece(), "HTTP/1.1 200"));
  const RawConnection another(port, "127.0.0.3");
  another.send(watch);
  CHECK(says(another.rest(), "Too many clients watch already."));
  const RawConnection fourth(port),
      fifth(port);  // `second` has ended; `first`, `third` and one more are three
  CHECK(fifth.piece().empty());
  const RawConnection free(port, "127.0.0.4");
  free.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  CHECK(says(free.rest(), "moetune_http_connections_closed_total 1\n"));
}

TEST_CASE("behind a proxy a client is the address that the proxy states, and only there") {
  std::string seen;
  const auto handler = [&](const ServerRequest& request) {
    seen = request.peer;
    return ServerResponse{};
  };
  const std::string request =
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: 9.9.9.9, 10.0.0.7\r\n\r\n";
  {
    const HttpServer server({.behind_proxy = true}, handler);
    answer_to(server.port(), request);
    CHECK(seen == "10.0.0.7");
    answer_to(server.port(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Forwarded-For: x\r\n\r\n");
    CHECK(seen == "127.0.0.1");
  }
  const HttpServer server({}, handler);
  answer_to(server.port(), request);
  CHECK(seen == "127.0.0.1");
}

TEST_CASE("a download may take longer than one step of it, as a body and in pieces") {
  constexpr std::size_t kParts = 6;
  const std::string part(1 << 20, 'x');
  const auto handler = [&](const ServerRequest& request) {
    ServerResponse response;
    if (request.path == "/body") {
      for (std::size_t i = 0; i < kParts; ++i) response.body += part;
      return response;
    }
    response.bytes = kParts * part.size();
    response.pieces = [&part] { return part; };
    return response;
  };
  const HttpServer server({.timeout = std::chrono::milliseconds(1500)}, handler);
  for (const std::string path : {"/body", "/pieces"}) {
    CAPTURE(path);
    const RawConnection slow(server.port(), "127.0.0.1", 64 << 10);
    slow.send("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const Clock::time_point begin = Clock::now();
    std::string all;
    for (std::string piece = slow.piece(); !piece.empty(); piece = slow.piece()) {
      all += piece;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // at most 64 KiB each time: 1.9 s in all
    }
    CHECK(seconds_since(begin) > 1.5);
    CHECK(all.size() - (all.find("\r\n\r\n") + 4) == kParts * part.size());
  }
}

TEST_CASE("/healthz waits for nobody, and /readyz says that the queue cannot be written") {
  RunningService running;
  running.options.jobs.patience = std::chrono::milliseconds(1500);
  running.start();
  CHECK(running.get("/readyz")["status"] == "ready");
  std::vector<std::thread> clients;
  std::atomic<int> answered{0}, unavailable{0};
  {
    const Database other(running.folder / "cache.db-jobs", Database::Access::read_write,
                         std::chrono::milliseconds(10'000));
    other.execute("BEGIN IMMEDIATE");
    for (int i = 0; i < 4; ++i)  // all of the handlers
      clients.emplace_back([&running, &answered, &unavailable, i] {
        const Json body = {{"kind", "search"}, {"request", {{"budget", 5}, {"seed", i}}}};
        const int status = running.ask("POST", "/v1/jobs", body.dump()).status;
        ++answered;
        unavailable += status == 503;
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    CHECK(running.ask("GET", "/healthz").status == 200);
    CHECK(answered == 0);
    CHECK(running.ask("GET", "/readyz").status == 503);
    other.execute("ROLLBACK");
  }
  for (std::thread& client : clients) client.join();
  CHECK(unavailable > 0);
  CHECK(running.get("/readyz")["status"] == "ready");
}

TEST_CASE("/readyz says that the queue's disk is full") {
  RunningService running;
  running.options.jobs.room = std::numeric_limits<std::uintmax_t>::max();
  running.start();
  const HttpResponse response = running.ask("GET", "/readyz");
  CHECK(response.status == 503);
  CHECK(response.body.find("bytes are left for " + (running.folder / "cache.db-jobs").string()) != std::string::npos);
  CHECK(running.ask("GET", "/healthz").status == 200);
}

TEST_CASE("a queue that is full says so, and a kind of a megabyte is refused in a line") {
  const SlowTrials slow;
  RunningService running;
  running.options.jobs.open = 2;
  running.start();
  running.submit({{"budget", 2000}, {"seed", 1}});
  running.submit({{"budget", 2000}, {"seed", 2}});
  const HttpResponse full =
      running.ask("POST", "/v1/jobs", R"({"kind": "search", "request": {"budget": 5, "seed": 3}})");
  CHECK(full.status == 503);
  CHECK(Json::parse(full.body)["error"]["code"] == "queue_full");
  CHECK(std::stoi(full.header("retry-after")) >= 1);
  const HttpResponse large =
      running.ask("POST", "/v1/jobs", Json{{"kind", std::string(1'000'000, 'a')}, {"request", Json::object()}}.dump());
  CHECK(large.status == 400);
  CHECK(large.body.size() < 500);
}
