#include "cli/remote_search.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/regular_file.h"
#include "serve/job_request.h"

namespace moetune {
namespace {

std::string token_of(const std::string& file) {
  if (file.empty()) return "";
  std::istringstream lines(read_regular_file(file, 64 << 10));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string word, last;
    while (words >> word) last = word;
    if (!last.empty()) return last;
  }
  throw BadField("token_file", file + " has no token");
}

void check_cache(const CacheChoice& cache) {
  if (cache.none || !cache.path.empty())
    throw BadInput("--server searches into the service's cache; leave out --cache and --no-cache");
}

}  // namespace

void declare_remote(OptionTable& table, RemoteOptions& options) {
  table.text("server", "URL", options.server, "let a service search: http://127.0.0.1:7878 (moetune serve)");
  table.text("token-file", "FILE", options.token_file,
             "with --server: a file whose first line ends with the token");
  table.text("ca-file", "FILE", options.ca_file, "with --server: trust these certificates (PEM)");
  table.only_with("server", {"token-file", "ca-file"});
}

FinishedJob remote_job(const RemoteOptions& options, const std::string& kind, const nlohmann::json& fields,
                       const JobContext& context) {
  const JobClient client(
      {.url = options.server, .token = token_of(options.token_file), .ca_file = options.ca_file});
  return client.run(kind, fields, context);
}

SearchResult remote_search(const RemoteOptions& options, const SearchRequest& request,
                           const JobContext& context, Document& document) {
  check_cache(request.target.cache);
  document = remote_job(options, "search", search_fields(request), context).result;
  if (document.is_null()) return {};
  return read_search_document(document);
}

RangeResult remote_range(const RemoteOptions& options, const RangeRequest& request, const JobContext& context,
                         Document& document) {
  check_cache(request.target.cache);
  document = remote_job(options, "range", range_fields(request), context).result;
  if (document.is_null()) return {};
  return read_range_document(document);
}

}  // namespace moetune
