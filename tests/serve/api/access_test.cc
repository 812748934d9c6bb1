// Who may do what, by itself: sessions, names, origins and rates, on both sides of each bound.
#include "serve/api/access.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/temporary_folder.h"

namespace moetune::access_test {
namespace {

ServerRequest with(const std::map<std::string, std::string>& headers) {
  ServerRequest request;
  request.headers = headers;
  return request;
}

void read_tokens(Access& access, const std::string& lines) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("tokens")) << lines;
  std::filesystem::permissions(folder.file("tokens"), std::filesystem::perms::owner_read);
  access.read_tokens(folder.file("tokens"));
}

constexpr const char* kTokens = "submit aaaaaaaaaaaaaaaa\nread aaaaaaaaaaaaaaaa\nmiss bbbbbbbbbbbbbbbb\n";

}  // namespace

TEST_CASE("a token has its highest role, from 16 characters on; without tokens everybody may do everything") {
  Access access({}, false);
  CHECK(access.role_of(with({})) == ClientRole::submit);
  read_tokens(access, kTokens);
  CHECK(access.role_of_token("aaaaaaaaaaaaaaaa") == ClientRole::submit);
  CHECK(access.role_of_token("bbbbbbbbbbbbbbbb") == ClientRole::miss);
  CHECK(access.role_of_token("aaaaaaaaaaaaaaa") == ClientRole::none);
  CHECK(access.role_of(with({})) == ClientRole::none);
  CHECK(access.role_of(with({{"authorization", "Bearer bbbbbbbbbbbbbbbb"}})) == ClientRole::miss);
  CHECK(access.role_of(with({{"authorization", "Basic bbbbbbbbbbbbbbbb"}})) == ClientRole::none);
  CHECK_THROWS(read_tokens(access, "read aaaaaaaaaaaaaaa\n"));
}

TEST_CASE("a session is its cookie's alone, and ends; of too many the oldest does") {
  const auto cookie = [](const std::string& set) { return set.substr(0, set.find(';')); };
  Access lasting({}, false), ended({}, false, std::chrono::seconds(-1));
  for (Access* const access : {&lasting, &ended}) {
    read_tokens(*access, kTokens);
    const std::string own = cookie(access->open_session(ClientRole::read));
    const ClientRole role = access->role_of(with({{"cookie", "x=y; " + own + "; z=1"}}));
    CHECK(role == (access == &lasting ? ClientRole::read : ClientRole::none));
    CHECK(access->role_of(with({{"cookie", "my_" + own}})) == ClientRole::none);
  }
  const std::string first = cookie(lasting.open_session(ClientRole::miss));
  std::vector<std::string> later;
  for (int i = 0; i < 999; ++i) later.push_back(cookie(lasting.open_session(ClientRole::read)));
  CHECK(lasting.role_of(with({{"cookie", first}})) == ClientRole::miss);
  later.push_back(cookie(lasting.open_session(ClientRole::read)));
  CHECK(lasting.role_of(with({{"cookie", first}})) == ClientRole::none);
  for (const std::string& one : {later.front(), later.back()})
    CHECK(lasting.role_of(with({{"cookie", one}})) == ClientRole::read);
}

TEST_CASE("a request is meant for this service by its host and its page's origin") {
  for (const bool tls : {false, true}) {
    const Access access({"GPU.example"}, tls);
    const std::string own = tls ? "https://" : "http://", other = tls ? "http://" : "https://";
    const auto is_meant = [&](const std::string& host, const std::string& origin) {
      return access.foreign(with({{"host", host}, {"origin", origin}})).empty();
    };
    for (const char* host : {"localhost", "127.0.0.1:8080", "[::1]:8080", "gpu.example:1", "Gpu.Example"}) {
      CHECK(is_meant(host, ""));
      CHECK(is_meant(host, own + host));
      CHECK_FALSE(is_meant(host, other + host));
      CHECK_FALSE(is_meant(host, own + "elsewhere.example"));
    }
    for (const char* host : {"", "gpu", "gpu.example.org", "127.0.0.2", "[::2]"}) CHECK_FALSE(is_meant(host, ""));
  }
}

TEST_CASE("each client has its own burst, and as many have one as there is room for") {
  RateLimit limit(2, 0.06);  // one more in a thousand seconds
  for (const char* client : {"a", "b"}) {
    CHECK(limit.take(client) == 0);
    CHECK(limit.take(client) == 0);
    const int wait = limit.take(client);
    CHECK(wait > 900);
    CHECK(wait <= 1000);
  }
  for (int i = 2; i < 10'000; ++i) REQUIRE(limit.take(std::to_string(i)) == 0);
  CHECK(limit.take("one more") == 60);
  CHECK(limit.take("2") == 0);  // who is known goes on
}

}  // namespace moetune::access_test
