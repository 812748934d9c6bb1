// TLS by a certificate that the test makes: who trusts it is served, and nobody else.
#include <sys/stat.h>

#include <cstdlib>

#include "base/error.h"
#include "serve/client/job_client.h"
#include "serve/run/job_request.h"
#include "tests/refusal.h"
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

bool make_certificate(const std::filesystem::path& folder, const std::string& name, const std::string& of) {
  const std::string command = "cd '" + folder.string() +
                              "' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
                              " -days 2 -subj /CN=moetune -addext subjectAltName=" +
                              of + " -keyout " + name + ".key -out " + name + ".pem > openssl.log 2>&1";
  return std::system(command.c_str()) == 0;
}

void use_tls(RunningService& running, const std::string& name) {
  running.options.http.tls_cert = (running.folder / (name + ".pem")).string();
  running.options.http.tls_key = (running.folder / (name + ".key")).string();
}

std::string failure(const RunningService& running, const std::string& ca) {
  HttpRequest request = running.request("GET", "/v1/jobs");
  request.ca_file = ca;
  return refusal_of<BrokenEnvironment>([&] { http_request(request); });
}

}  // namespace

TEST_CASE("https serves who trusts its certificate, for the host that it names") {
  RunningService running;
  if (!make_certificate(running.folder.path(), "here", "IP:127.0.0.1,DNS:localhost")) {
    MESSAGE("skipped: the openssl command cannot make a certificate here");
    return;
  }
  REQUIRE(make_certificate(running.folder.path(), "other", "DNS:elsewhere.example"));
  use_tls(running, "here");
  running.start();
  CHECK(running.service->url().starts_with("https://127.0.0.1:"));
  const std::string trusted = running.options.http.tls_cert;
  running.ca = trusted;
  CHECK(running.ask("GET", "/healthz").status == 200);
  CHECK(failure(running, "").find("cannot agree on TLS") != std::string::npos);
  CHECK(failure(running, (running.folder / "other.pem").string()).find("cannot agree on TLS") != std::string::npos);
  CHECK(failure(running, (running.folder / "none.pem").string()).find("none.pem") != std::string::npos);
  HttpRequest plain = running.request("GET", "/healthz");
  plain.url.replace(0, 5, "http");
  CHECK_THROWS_AS(http_request(plain), BrokenEnvironment);

  const JobClient client({.url = running.service->url(), .token = {}, .ca_file = trusted});
  SearchRequest request;
  request.settings.budget = 20;
  std::size_t trials = 0;
  const EventListener listener = [&](const Event& event) { trials += std::holds_alternative<TrialEnded>(event.what); };
  const FinishedJob job = client.run("search", search_fields(request), {.events = {.listener = listener}, .stop = {}});
  CHECK(job.exit_code == 0);
  CHECK(trials == 20);
  const JobClient nobody({.url = running.service->url(), .token = {}, .ca_file = {}});
  CHECK_THROWS_AS(nobody.run("search", search_fields(request), {}), BrokenEnvironment);

  running.service.reset();
  use_tls(running, "other");
  running.start();
  CHECK(failure(running, running.options.http.tls_cert).find("cannot agree on TLS") != std::string::npos);
}

TEST_CASE("an address that others reach needs tokens and TLS, and then serves both") {
  RunningService running;
  const std::string tokens = (running.folder / "tokens").string();
  std::ofstream(tokens) << "submit cccccccccccccccccccc\n";
  ::chmod(tokens.c_str(), 0600);
  const auto refusal = [&]() -> std::string { return refusal_of<BadField>([&] { running.start(); }); };
  running.options.behind_tls_proxy = true;
  CHECK(refusal() == "behind_tls_proxy: whom a proxy lets in can be anybody: that needs --token-file FILE");
  running.options.behind_tls_proxy = false;
  running.options.http.host = "0.0.0.0";
  CHECK(refusal() == "listen: 0.0.0.0 can be reached by others: that needs --token-file FILE");
  running.options.token_file = tokens;
  CHECK(refusal().find("that needs --tls-cert and --tls-key, or --behind-tls-proxy") != std::string::npos);
  if (!make_certificate(running.folder.path(), "here", "IP:127.0.0.1")) {
    MESSAGE("skipped: the openssl command cannot make a certificate here");
    return;
  }
  running.options.http.tls_cert = (running.folder / "here.pem").string();
  CHECK(refusal().find("a certificate and its key belong together") != std::string::npos);
  running.options.http.tls_key = (running.folder / "openssl.log").string();
  CHECK_FALSE(refusal().empty());
  use_tls(running, "here");
  running.start();
  HttpRequest request = running.request("GET", "/v1/jobs");
  request.url.replace(request.url.find("0.0.0.0"), 7, "127.0.0.1");
  request.ca_file = running.options.http.tls_cert;
  CHECK(http_request(request).status == 401);
  request.headers.emplace_back("Authorization", "Bearer cccccccccccccccccccc");
  CHECK(http_request(request).status == 200);
}
