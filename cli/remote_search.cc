#include "cli/remote_search.h"

#include <nlohmann/json.hpp>

#include "base/as_field.h"
#include "base/error.h"
#include "http/http_client.h"
#include "serve/api/token_file.h"

namespace moetune {
namespace {

std::string token_of(const std::string& file) {
  return file.empty() ? "" : as_field("token_file", [&] { return read_client_token(file); });
}

}  // namespace

void warn_of_token(const std::string& server, const std::string& token_file, const Output& output) {
  if (server.empty() || token_file.empty()) return;
  const Url to = parse_url(server);
  if (!to.tls && to.host != "127.0.0.1" && to.host != "::1" && to.host != "localhost")
    output.warn("The token is sent to " + to.origin() + " without TLS, and can be read on the way.");
}

void declare_remote(OptionTable& table, RemoteOptions& options) {
  table.text("server", "URL", options.server, "let a service search: http://127.0.0.1:7878 (moetune serve)");
  table.text("token-file", "FILE", options.token_file, "with --server: a file with the token, which only you may read");
  table.text("ca-file", "FILE", options.ca_file, "with --server: trust these certificates (PEM)");
  table.only_with("server", {"token-file", "ca-file"});
  table.at_odds("server", {"cache", "no-cache", "threads", "device"});
}

FinishedJob remote_job(const RemoteOptions& options, const std::string& kind, const nlohmann::json& fields,
                       const CacheChoice& cache, std::uint64_t threads, const JobContext& context) {
  if (cache.none || !cache.path.empty())
    throw BadInput("--server searches into the service's cache; leave out --cache and --no-cache");
  if (threads > 0) throw BadInput("--server compiles with the service's compilers; leave out --threads");
  const JobClient client({.url = options.server, .token = token_of(options.token_file), .ca_file = options.ca_file});
  return client.run(kind, fields, context);
}

}  // namespace moetune
