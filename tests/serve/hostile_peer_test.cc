// What a client without a token, or a service that means ill, cannot take: memory, and the time of others.
#include "base/error.h"
#include "tests/resident.h"
#include "tests/sanitized.h"
#include "tests/serve/raw_http.h"
#include "tests/serve/running_service.h"
#include "tests/sync/scripted_server.h"

namespace moetune::hostile_peer_test {
using namespace testing;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSent = std::size_t{128} << 20, kMostHeld = std::size_t{32} << 20;
const std::string kToken = "cccccccccccccccccccc";

std::uint16_t start_with_tokens(RunningService& running) {
  const std::string tokens = (running.folder / "tokens").string();
  std::ofstream(tokens) << "submit " << kToken << "\n";
  std::filesystem::permissions(tokens, std::filesystem::perms::owner_read);
  running.options.token_file = tokens;
  running.start();
  const std::string url = running.service->url();
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

// A POST whose body comes in chunks, up to the first of them.
std::string chunked_head(const std::string& more = "") {
  return "POST /v1/misses HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + more +
         "Transfer-Encoding: chunked\r\n\r\n";
}
std::string with_token() { return "Authorization: Bearer " + kToken + "\r\n"; }

std::string answer_to(std::uint16_t port, const std::string& request, const char* from = "127.0.0.1") {
  const RawConnection connection(port, from);
  connection.send(request);
  return connection.rest();
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

TEST_CASE("trailers and extensions of chunks count as headers, and hold no memory") {
  RunningService running;
  const std::uint16_t port = start_with_tokens(running);
  const std::string kilobyte(1000, 'x');
  struct Attack {
    const char* name;
    std::string begin, piece;
  };
  const Attack attacks[] = {{"trailers", "2\r\n{}\r\n0\r\n", "X-A: " + kilobyte + "\r\n"},
                            {"one trailer", "2\r\n{}\r\n0\r\nX-A: ", kilobyte},
                            {"one extension", "1;a=", kilobyte},
                            {"extensions", "", "1;a=" + kilobyte + "\r\n \r\n"},
                            {"a size without an end", "0", std::string(1000, '0')}};
  for (const Attack& attack : attacks) {
    CAPTURE(attack.name);
    const std::size_t before = resident_bytes();
    std::size_t most = before;
    const RawConnection connection(port);
    connection.send(chunked_head(with_token()) + attack.begin);
    std::string many;
    while (many.size() < 1 << 20) many += attack.piece;
    for (std::size_t sent = 0; sent < kSent && connection.send(many); sent += many.size())
      most = std::max(most, resident_bytes());
    const std::string answer = connection.rest();
    CHECK_MESSAGE((answer.starts_with("HTTP/1.1 431") || answer.empty()),
                  answer);  // "": it was reset meanwhile
    if (!kSanitized) CHECK(most - before < kMostHeld);
  }
  CHECK(running.ask("GET", "/healthz").status == 200);
}

TEST_CASE("a head, its extensions and its trailers share one limit") {
  RunningService running;
  running.options.http.max_header = 4096;
  const std::uint16_t port = start_with_tokens(running);
  const auto sized = [&](std::size_t head, std::size_t extension, std::size_t trailer) {
    return answer_to(port, chunked_head(with_token() + "Connection: close\r\nX-A: " + std::string(head, 'x') + "\r\n") +
                               "d;a=" + std::string(extension, 'x') +
                               "\r\n{\"misses\":[]}\r\n0\r\nX-B: " + std::string(trailer, 'x') + "\r\n\r\n");
  };
  CHECK(sized(1000, 1000, 1000).starts_with("HTTP/1.1 202"));
  CHECK(sized(3000, 500, 1000).starts_with("HTTP/1.1 431"));
  CHECK(sized(1000, 2500, 1000).starts_with("HTTP/1.1 431"));
  CHECK(sized(1000, 500, 2500).starts_with("HTTP/1.1 431"));
}

TEST_CASE("who may do nothing is refused by the head alone, and trailers are no head") {
  RunningService running;
  running.options.http.timeout = std::chrono::milliseconds(60'000);
  const std::uint16_t port = start_with_tokens(running);
  const RawConnection waiting(port);
  waiting.send(chunked_head());  // and no body
  CHECK(waiting.answer().starts_with("HTTP/1.1 401"));
  const RawConnection large(port);
  large.send("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  CHECK(large.answer().starts_with("HTTP/1.1 401"));
  const std::string body = "d\r\n{\"misses\":[]}\r\n0\r\n";
  CHECK(answer_to(port, chunked_head() + body + with_token() + "\r\n").starts_with("HTTP/1.1 401"));
  CHECK(answer_to(port, chunked_head(with_token() + "Connection: close\r\n") + body + "\r\n")
            .starts_with("HTTP/1.1 202"));
  // The one body that needs no token is a short one.
  const RawConnection login(port);
  login.send(
      "POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: 1000000\r\n\r\n");
  CHECK(login.answer().starts_with("HTTP/1.1 413"));
  CHECK(answer_to(port, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1fff\r\n" +
                            std::string(0x1fff, ' ') + "\r\n0\r\n\r\n")
            .starts_with("HTTP/1.1 413"));
}

TEST_CASE("wrong tokens become slow and are refused, and right ones of the same address are not") {
  RunningService running;
  running.options.api.wrong_tokens_burst = 3;
  running.options.api.wrong_tokens_per_minute = 0.001;
  const std::uint16_t port = start_with_tokens(running);
  const auto ask = [&](const std::string& token, const char* from = "127.0.0.1") {
    return answer_to(
        port,
        "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + token + "\r\n\r\n",
        from);
  };
  for (int i = 0; i < 3; ++i) CHECK(ask("wrong-" + std::to_string(i)).starts_with("HTTP/1.1 401"));
  const Clock::time_point begin = Clock::now();
  const std::string late = ask("wrong-again");
  CHECK(late.starts_with("HTTP/1.1 429"));
  CHECK(late.find("Retry-After: ") != std::string::npos);
  CHECK(seconds_since(begin) > 0.9);
  CHECK(ask(kToken).starts_with("HTTP/1.1 200"));
  CHECK(ask("wrong-elsewhere", "127.0.0.2").starts_with("HTTP/1.1 401"));
  const std::string none = answer_to(port, "GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  CHECK(none.starts_with("HTTP/1.1 401"));  // it tries nothing
}

TEST_CASE("an encoded slash is part of a name, and no separator") {
  RunningService running;
  std::filesystem::create_directory(running.folder / "packs");
  running.options.packs = (running.folder / "packs").string();
  running.start();
  CHECK(running.ask("GET", "/v1/jobs").status == 200);
  CHECK(running.ask("GET", "/v1/%6Aobs").status == 200);
  for (const char* path : {"/v1%2fjobs", "/v1%2Fjobs", "/v1/packs/a.pack%2fsignature", "/page%2flive.css"}) {
    CAPTURE(path);
    const HttpResponse answer = running.ask("GET", path);
    CHECK(answer.status == 404);
  }
  CHECK(Json::parse(running.ask("GET", "/v1%2fjobs").body)["error"]["code"] == "no_such_path");
  CHECK(Json::parse(running.ask("GET", "/v1/packs/a.pack%2fsignature").body)["error"]["code"] == "no_such_pack");
}

TEST_CASE("a service that sends headers, trailers or extensions without an end takes no memory of its client") {
  const std::string head = "HTTP/1.1 200 OK\r\n", chunks = head + "Transfer-Encoding: chunked\r\n\r\n";
  const std::string kilobyte(1000, 'x'), lines = [&] {
    std::string text;
    while (text.size() < 1 << 20) text += "X-A: " + kilobyte + "\r\n";
    return text;
  }();
  const std::string mega(1 << 20, 'x');
  const std::string answers[] = {endless(head, lines), endless(chunks + "2\r\n{}\r\n0\r\n", lines),
                                 endless(chunks + "2\r\n{}\r\n0\r\nX-A: ", mega), endless(chunks + "1;a=", mega),
                                 endless(chunks, "1;a=" + kilobyte + "\r\n \r\n")};
  for (const std::string& answer : answers) {
    CAPTURE(&answer - answers);
    const ScriptedServer server([&](const ScriptedServer::Request&) { return answer; });
    const std::size_t before = resident_bytes();
    const HttpRequest request{.url = server.url() + "/", .timeout = std::chrono::seconds(20)};
    CHECK_THROWS_WITH_AS(http_request(request),
                         doctest::Contains("headers, extensions of chunks and trailers are larger than 64 KiB"),
                         BrokenEnvironment);
    CHECK_THROWS_AS(http_stream(request, [](std::string_view) { return true; }), BrokenEnvironment);
    if (!kSanitized) CHECK(resident_bytes() < before + kMostHeld);
  }
}

}  // namespace moetune::hostile_peer_test
