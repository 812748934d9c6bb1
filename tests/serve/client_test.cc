// A client of what answers as a service and is none.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "http/http_client.h"
#include "serve/client/job_client.h"
#include "tests/sync/scripted_server.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

struct Answers {
  const char* submitted;
  const char* event;
  const char* job;
};

// The sentence with which a client ends; "" if it does not.
std::string failure_with(const Answers& answers) {
  const ScriptedServer server([&](const ScriptedServer::Request& request) {
    if (request.method == "POST") return http_answer(201, answers.submitted);
    const bool is_stream = request.path.starts_with("/v1/events");
    return http_answer(200, is_stream ? std::string("event: ") + answers.event + "\n\n" : answers.job);
  });
  try {
    JobClient({.url = server.url(), .token = {}, .ca_file = {}}).run("search", nlohmann::json::object(), {});
  } catch (const BrokenEnvironment& error) {
    const std::string beginning = "what is at " + server.url() + " is no service of this moetune's version: ";
    const std::string text = error.what();
    CHECK_MESSAGE(text.starts_with(beginning), text);
    return text.substr(std::min(text.size(), beginning.size()));
  }
  return "";
}

}  // namespace

TEST_CASE("what is no service of this version is said to be none, at once") {
  constexpr const char* kSubmitted = R"({"id": 1, "ticket": "t"})";
  constexpr const char* kDone = "job\ndata: {\"state\": \"done\"}";
  constexpr const char* kJob = R"({"id": 1, "state": "done", "result": {}, "exit_code": 0})";
  CHECK(failure_with({kSubmitted, kDone, kJob}) == "");
  CHECK(failure_with({R"({"id": "one"})", kDone, kJob}).find("type must be number") != std::string::npos);
  CHECK(failure_with({kSubmitted, kDone, R"({"id": "one", "state": "done", "result": {}})"})
            .find("type must be number") != std::string::npos);
  CHECK(failure_with({kSubmitted, kDone, R"({"id": 1, "state": "done", "result": [7]})"}) ==
        "the result of job 1 is no object");
  CHECK(failure_with({kSubmitted, "trial\ndata: {\"type\": \"trial\"}", kJob}).find("an event cannot be read") == 0);
  CHECK(failure_with({kSubmitted, "job\ndata: {", kJob}).find("an event") == 0);
}

TEST_CASE("a stream may be of any length, what is said instead of one and all other answers only so long") {
  const ScriptedServer server([](const ScriptedServer::Request& request) {
    return http_answer(request.path == "/stream" ? 200 : 503, std::string(100'000, 'x'));
  });
  HttpRequest request{.url = server.url() + "/stream", .max_bytes = 1000};
  std::size_t bytes = 0;
  const auto take = [&](std::string_view piece) {
    bytes += piece.size();
    return true;
  };
  http_stream(request, take);
  CHECK(bytes == 100'000);
  const char* const kRefused = "sends more than the 1000 bytes that are taken";
  CHECK_THROWS_WITH_AS(http_request(request), doctest::Contains(kRefused), BrokenEnvironment);
  request.url = server.url() + "/busy";
  CHECK_THROWS_WITH_AS(http_stream(request, take), doctest::Contains(kRefused), BrokenEnvironment);
  CHECK(bytes == 100'000);
}
