// Clients that send their body only once the service says so, as curl does with one of more than a megabyte.
#include "tests/serve/raw_http.h"
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

constexpr const char* kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
const std::string kToken = "cccccccccccccccccccc";

// A POST of a job without its body.
std::string head_of(std::size_t bytes, const std::string& more, const std::string& path = "/v1/jobs") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(bytes) + "\r\n" + more +
         "\r\n";
}

std::string header(const std::string& name, const std::string& value) { return name + ": " + value + "\r\n"; }

}  // namespace

TEST_CASE("a client that waits with its body may send it, or gets its refusal at once") {
  RunningService running;
  const std::string tokens = (running.folder / "tokens").string();
  std::ofstream(tokens) << "submit " << kToken << "\nread aaaaaaaaaaaaaaaaaaaa\n";
  std::filesystem::permissions(tokens, std::filesystem::perms::owner_read);
  running.options.token_file = tokens;
  running.options.http.timeout = std::chrono::milliseconds(3000);
  running.start();
  const std::string url = running.service->url();
  const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  const std::string body = R"({"kind": "search", "request": {"budget": 5}})";
  const std::string waits = header("Expect", "100-continue"), json = header("Content-Type", "application/json"),
                    token = header("Authorization", "Bearer " + kToken);

  const RawConnection one(port);
  for (const char* expectation : {"100-continue", "100-Continue"}) {
    one.send(head_of(body.size(), header("Expect", expectation) + json + token));
    CHECK(one.piece() == kGoOn);
    one.send(body);
    CHECK(one.answer().starts_with("HTTP/1.1 20"));  // 201, and 200 for the equal one
  }
  one.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + waits + "\r\n");  // there is no body to wait for
  CHECK(one.answer().starts_with("HTTP/1.1 200 OK"));

  const auto answer = [&](const std::string& head) {
    const RawConnection other(port);
    other.send(head);
    return other.rest();
  };
  const std::size_t size = body.size();
  CHECK(answer(head_of(size, waits + json)).starts_with("HTTP/1.1 401"));
  CHECK(answer(head_of(size, waits + json + header("Authorization", "Bearer aaaaaaaaaaaaaaaaaaaa")))
            .starts_with("HTTP/1.1 403"));
  CHECK(answer(head_of(2 << 20, waits + json + token)).starts_with("HTTP/1.1 413"));
  CHECK(answer(head_of(size, waits + token)).starts_with("HTTP/1.1 415"));
  CHECK(answer(head_of(size, waits + json + token, "/nothing")).starts_with("HTTP/1.1 404"));
  CHECK(answer(head_of(size, waits + json + token, "/v1/ended")).find("Allow: GET") != std::string::npos);
  CHECK(answer(head_of(size, header("Expect", "a-reply") + json + token)).starts_with("HTTP/1.1 417"));
  CHECK(answer(head_of(size, waits + json)).find("X-Content-Type-Options: nosniff") != std::string::npos);
}

TEST_CASE("a client of HTTP/1.0 gets no answer before the final one") {
  RunningService running;
  running.start();
  const std::string url = running.service->url();
  const RawConnection old(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  std::string head = head_of(2, header("Expect", "100-continue") + header("Content-Type", "application/json"));
  head.replace(head.find("HTTP/1.1"), 8, "HTTP/1.0");
  old.send(head + "{}");
  CHECK(old.rest().find(" 400 ") != std::string::npos);
}
