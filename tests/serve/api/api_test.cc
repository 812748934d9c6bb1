#include <regex>

#include "base/error.h"
#include "serve/api/token_file.h"
#include "serve/run/event_log.h"
#include "tests/paths.h"
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

// What a stream says until `enough`.
std::string stream_until(const RunningService& running, HttpRequest request,
                         const std::function<bool(const std::string&)>& enough) {
  std::string text;
  request.timeout = kPatience;
  http_stream(request, [&](std::string_view piece) {
    text += piece;
    return !enough(text);
  });
  return text;
}

}  // namespace

TEST_CASE("an event log keeps what fits, says what it lost, and goes on after an id") {
  EventLog log(4);
  auto all = log.read(0), later = log.read(std::nullopt);
  std::uint64_t last = 0;
  for (int i = 0; i < 6; ++i) last = log.append("trial", i % 2 + 1, {{"i", i}});
  const std::string text = all.take();
  CHECK(text.find("event: lost") != std::string::npos);
  CHECK(text.find("\"i\":1}") == std::string::npos);
  CHECK(text.find("\"i\":2}") != std::string::npos);
  CHECK(all.take().empty());
  CHECK(later.take().find("\"i\":5}") != std::string::npos);
  CHECK(log.read(last - 1).take() == "id: " + std::to_string(last) + "\nevent: trial\ndata: {\"i\":5}\n\n");
  CHECK(log.read(last + 1000).take().empty());
  const std::string of_one = log.read(last - 4, 1).take();
  CHECK(of_one.find("\"i\":4}") != std::string::npos);
  CHECK(of_one.find("\"i\":5}") == std::string::npos);
}

TEST_CASE("an event log of many events keeps as many bytes of the latest as it may, and not one event more") {
  EventLog sizes;
  const std::uint64_t first = sizes.append("trial", 1, {{"i", 1000}});
  const std::size_t size = sizes.read(first - 1).take().size();
  for (const std::size_t spare : {std::size_t{0}, size - 1}) {
    EventLog log(100, 5 * size + spare);
    std::uint64_t last = 0;
    for (int i = 1000; i < 1040; ++i) {
      last = log.append("trial", 1, {{"i", i}});
      if (i < 1005) continue;
      CHECK(log.read(last - 5).take().size() == 5 * size);
      CHECK(log.read(last - 6).take().find("event: lost") != std::string::npos);
    }
    log.append("trial", 1, {{"text", std::string(10 * size, 'x')}});  // alone it may be too large
    CHECK(log.read(last).take().size() > 10 * size);
    CHECK(log.read(last - 1).take().find("event: lost") != std::string::npos);
  }
}

TEST_CASE("the event stream beats, resumes after an id, and leaves nothing behind") {
  RunningService running;
  running.options.http.heartbeat = std::chrono::milliseconds(200);
  running.start();
  const HttpRequest request = running.request("GET", "/v1/events");
  const std::string quiet =
      stream_until(running, request, [](const std::string& text) { return text.find("heartbeat") != text.npos; });
  CHECK(quiet.find(": heartbeat\n\n") != std::string::npos);
  const Json job = running.submit({{"budget", 10}});
  running.ended(job["id"]);
  REQUIRE(running.becomes_idle());  // all of its events are there
  HttpRequest from_start = request;
  from_start.headers.emplace_back("Last-Event-ID", "0");
  const auto is_done = [](const std::string& text) {
    return text.find("\"state\":\"done\"") != text.npos && text.ends_with("\n\n");
  };
  const std::string whole = stream_until(running, from_start, is_done);
  std::smatch ids;
  REQUIRE(std::regex_search(whole, ids, std::regex("id: (\\d+)\nevent: trial")));
  HttpRequest resumed = request;
  resumed.headers.emplace_back("Last-Event-ID", ids[1]);
  const std::string rest = stream_until(running, resumed, is_done);
  CHECK(rest.find("id: " + ids[1].str() + "\n") == std::string::npos);
  CHECK(whole.ends_with(rest.substr(rest.find("id: "))));
  CHECK(within_a_while([&] {  // all who have left are gone
    return running.ask("GET", "/metrics").body.find("moetune_http_connections 1\n") != std::string::npos;
  }));
}

TEST_CASE("misses become queued searches, once, heavier the more often they were missed") {
  const SlowTrials slow;
  RunningService running;
  running.options.api.misses_burst = 3;
  running.options.api.misses_per_minute = 1;
  running.start();
  const auto post = [&](const Json& misses) {
    return running.ask("POST", "/v1/misses", Json{{"misses", misses}}.dump());
  };
  const Json blocker = running.started({{"budget", 2000}, {"seed", 9}});
  const Json rare = {{"kernel", "decode_kernel"}, {"problem", "elements=4096"}, {"count", 3}};
  const Json often = {{"kernel", "decode_kernel"}, {"problem", "elements=8192"}, {"count", 40}};
  const HttpResponse first = post(Json::array({rare, often, {{"kernel", "nothing"}, {"problem", ""}, {"count", 1}}}));
  CHECK(first.status == 202);
  Json answer = Json::parse(first.body);
  CHECK(answer["why"].size() == 1);
  answer.erase("why");
  CHECK(answer == Json{{"accepted", 2}, {"queued", 2}, {"known", 0}, {"refused", 1}});
  CHECK(Json::parse(post(Json::array({rare})).body)["queued"] == 0);
  const Json queued = running.get("/v1/jobs?state=queued")["jobs"];
  REQUIRE(queued.size() == 2);
  CHECK(queued[0]["weight"] == 6);
  CHECK(queued[1]["weight"] == 40);
  CHECK(queued[0]["priority"].get<int>() < 0);
  CHECK(post(Json::array({rare})).status == 202);
  const HttpResponse limited = post(Json::array({rare}));
  CHECK(limited.status == 429);
  CHECK(std::stoi(limited.header("retry-after")) >= 1);
}

TEST_CASE("only what is meant for the service, in JSON, is taken") {
  RunningService running;
  running.options.hosts = {"Tuner.Example"};
  running.start();
  const auto status = [&](HttpRequest request, const std::string& name, const std::string& value) {
    std::erase_if(request.headers, [&](const auto& header) { return header.first == name; });
    request.headers.emplace_back(name, value);
    return http_request(request).status;
  };
  const HttpRequest get = running.request("GET", "/v1/jobs");
  CHECK(status(get, "Host", "evil.example") == 421);
  for (const char* host : {"tuner.example", "Tuner.Example:7878"}) CHECK(status(get, "Host", host) == 200);
  CHECK(status(get, "Origin", "http://evil.example") == 421);
  CHECK(status(get, "Origin", running.service->url()) == 200);
  const HttpRequest post = running.request("POST", "/v1/jobs", R"({"kind":"search","request":{"budget":5}})");
  CHECK(status(post, "Content-Type", "text/plain") == 415);
  CHECK(status(post, "Content-Type", "application/jsonp") == 415);
  CHECK(status(post, "Content-Encoding", "gzip") == 415);
  const HttpRequest other = running.request("POST", "/v1/jobs", R"({"kind":"search","request":{"budget":4}})");
  CHECK(status(other, "Content-Type", "Application/JSON ; charset=utf-8") == 201);  // a type's name has no case
  CHECK(status(post, "Content-Type", "application/json; charset=utf-8") == 201);
  CHECK(running.ask("POST", "/v1/jobs", "{\"kind\"").status == 400);
  CHECK(running.ask("POST", "/v1/jobs", std::string(2 << 20, ' ')).status == 413);
  CHECK(running.ask("POST", "/v1/jobs", std::string(100, '[')).status == 400);
  CHECK(running.ask("DELETE", "/v1/jobs").status == 405);
  for (const char* path : {"/v1/packs/..%2fcache.db", "/page/..%2f..%2fetc%2fpasswd", "/page/live.html", "/v1/jobs/x",
                           "/v1/jobs/99999999999999999999", "/nothing"})
    CHECK_MESSAGE(running.ask("GET", path).status == 404, path);
  CHECK(running.ask("GET", "/v1/jobs?limit=x").status == 400);
  CHECK(running.ask("GET", "/v1/%zz").status == 400);
  const HttpResponse page = running.ask("GET", "/");
  CHECK(page.header("content-security-policy").find("default-src 'none'") == 0);
  CHECK(page.header("set-cookie").find("HttpOnly; SameSite=Strict") != std::string::npos);
  CHECK(page.header("access-control-allow-origin").empty());
}

TEST_CASE("tokens have roles, and are needed wherever others can reach the service") {
  RunningService running;
  const std::string file = (running.folder / "tokens").string();
  std::ofstream(file)
      << "# people\nread aaaaaaaaaaaaaaaaaaaa\nmiss bbbbbbbbbbbbbbbbbbbb\nsubmit cccccccccccccccccccc\n";
  running.options.token_file = file;
  CHECK_THROWS_WITH_AS(running.start(), doctest::Contains("chmod 600"), BadField);
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  running.start();
  const std::string search = R"({"kind":"search","request":{"budget":5}})", misses = R"({"misses":[]})";
  const auto with = [&](const std::string& token) {
    running.headers =
        token.empty() ? decltype(running.headers){} : decltype(running.headers){{"Authorization", "Bearer " + token}};
    return std::vector<int>{running.ask("GET", "/v1/jobs").status, running.ask("POST", "/v1/misses", misses).status,
                            running.ask("POST", "/v1/jobs", search).status};
  };
  CHECK(with("") == std::vector<int>{401, 401, 401});
  CHECK(with("aaaaaaaaaaaaaaaaaaab") == std::vector<int>{401, 401, 401});
  CHECK(with("aaaaaaaaaaaaaaaaaaaa") == std::vector<int>{200, 403, 403});
  CHECK(with("bbbbbbbbbbbbbbbbbbbb") == std::vector<int>{200, 202, 403});
  CHECK(with("cccccccccccccccccccc") == std::vector<int>{200, 202, 201});
  running.headers = {{"Authorization", "bearer aaaaaaaaaaaaaaaaaaaa"}};  // a scheme in any case
  CHECK(running.ask("GET", "/v1/jobs").status == 200);
  running.headers.clear();
  CHECK(running.ask("GET", "/healthz").status == 200);
  CHECK(running.ask("POST", "/v1/session", R"({"token":"no"})").status == 401);
  const HttpResponse session = running.ask("POST", "/v1/session", R"({"token":"aaaaaaaaaaaaaaaaaaaa"})");
  CHECK(session.status == 200);
  const std::string cookie = session.header("set-cookie");
  const std::string own = cookie.substr(0, cookie.find(';'));
  running.headers = {{"Cookie", "my_moetune_session=x; " + own + "; other=y"}};  // browsers send those of other ports
  CHECK(running.ask("GET", "/v1/jobs").status == 200);
  running.headers = {{"Cookie", "my_" + own}};
  CHECK(running.ask("GET", "/v1/jobs").status == 401);
  running.headers = {{"Cookie", own}};
  CHECK(running.ask("GET", "/v1/jobs").status == 200);
  CHECK(running.ask("POST", "/v1/jobs", search).status == 403);
  running.service.reset();
  running.options.http.host = "0.0.0.0";
  CHECK_THROWS_WITH_AS(running.start(), doctest::Contains("--tls-cert"), BadField);
  running.options.token_file.clear();
  CHECK_THROWS_WITH_AS(running.start(), doctest::Contains("--token-file"), BadField);
}

TEST_CASE("packs of the folder are listed, fetched by their digest, and nothing else is") {
  RunningService running;
  std::filesystem::create_directory(running.folder / "packs");
  std::filesystem::copy_file(paths::source("packs/h200.pack"), running.folder / "packs/h200.pack");
  std::ofstream(running.folder / "packs" / "broken.pack") << "no pack";
  running.options.packs = (running.folder / "packs").string();
  running.start();
  const Json packs = running.get("/v1/packs")["packs"];
  REQUIRE(packs.size() == 1);
  const std::string name = packs[0]["name"], sha256 = packs[0]["sha256"];
  CHECK(packs[0]["hardware"].get<std::string>().find("H200") != std::string::npos);
  CHECK(packs[0]["signed"] == false);
  const HttpResponse pack = running.ask("GET", "/v1/packs/" + name);
  CHECK(pack.status == 200);
  CHECK(pack.body.size() == packs[0]["bytes"].get<std::size_t>());
  CHECK(pack.header("etag") == "\"" + sha256 + "\"");
  running.headers = {{"If-None-Match", "\"" + sha256 + "\""}};
  CHECK(running.ask("GET", "/v1/packs/" + name).status == 304);
  running.headers.clear();
  CHECK(running.ask("GET", "/v1/packs/" + name + "/signature").status == 404);
  std::ofstream(running.folder / "packs" / (name + ".sig")) << "signed";
  CHECK(running.ask("GET", "/v1/packs/" + name + "/signature").body == "signed");
  CHECK(running.ask("GET", "/v1/packs/broken.pack").status == 404);
}

TEST_CASE("a recording that is not there is named when the service starts, not by every job") {
  RunningService running;
  for (const char* name : {"replay:decode_attention_h200_b1_c8193", "replay:", "replay:/nowhere/x.json"}) {
    CAPTURE(name);
    running.options.devices = {name};
    std::string field;
    try {
      running.start();
    } catch (const BadField& error) {
      field = error.field();
    }
    CHECK(field == "device");
    CHECK_FALSE(running.service);
  }
}

TEST_CASE("a token's file is its owner's alone, for a service and for its clients") {
  const RunningService unused;  // its folder
  const std::filesystem::path file = unused.folder / "token";
  const auto read = [&](const std::string& text) {
    std::ofstream(file) << text;
    std::filesystem::permissions(file, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    return read_client_token(file);
  };
  CHECK(read("secret-token\n") == "secret-token");
  CHECK(read("# of the tuner\n\nmiss secret-token\nread another\n") == "secret-token");
  for (const char* wrong : {"", "\n", "# nothing\n", "two words more\n", "a\r\n", "caf\xC3\xA9\n"})
    CHECK_THROWS_AS(read(wrong), BadInput);
  std::filesystem::permissions(file, std::filesystem::perms::group_read, std::filesystem::perm_options::add);
  CHECK_THROWS_WITH_AS(read_client_token(file), doctest::Contains("chmod 600"), BadInput);
  CHECK_THROWS_AS(read_client_token(unused.folder / "none"), BadInput);
}
