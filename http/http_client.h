// An HTTP/1.1 client for http and https: one blocking request a connection, each of its steps bounded in time and size.
//
// Stateless functions; thread-safe. What the server answers, whatever its status, is a result. Errors: BadInput for a
// URL or a header that is none, BrokenEnvironment if `ca_file` cannot be read, or if the server cannot be reached,
// breaks off, is slower than `timeout`, sends more than `max_bytes`, or shows a certificate that is not trusted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moetune {

struct Url {
  bool tls = false;
  std::string host, port;  // an IPv6 address without its brackets
  std::string target;      // "/v1/jobs?limit=3"

  std::string origin() const;  // "https://host:port"
};

// "http://127.0.0.1:7878/v1/jobs"; the path may be missing. Throws BadInput.
Url parse_url(const std::string& text);

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;  // beside Host, User-Agent and Content-Length
  std::string body;
  std::chrono::milliseconds timeout{30'000};          // of the whole exchange; of http_stream: between two pieces
  std::uint64_t max_bytes = std::uint64_t{16} << 20;  // of the answer's body
  std::string ca_file;                                // of https: trusted instead of the system's certificates
};

// A service, and who asks it.
struct ServiceAddress {
  std::string url;      // "https://tuner:7878"
  std::string token;    // "": none is sent
  std::string ca_file;  // of https: instead of the system's certificates
};

// A GET of a path of the service.
HttpRequest request_to(const ServiceAddress& service, const std::string& path);

struct HttpResponse {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;

  std::string header(std::string_view lower_case_name) const;  // the first; "" if there is none
};

// The PEM of HttpRequest::ca_file. Throws BadField.
std::string certificates_in(const std::string& ca_file);

HttpResponse http_request(const HttpRequest& request);

// As above, but each piece of a 200's body is handed over as it comes, without a bound on their sum, until `piece`
// returns false, the server ends, or `stop` is requested. Other bodies as above.
HttpResponse http_stream(const HttpRequest& request, const std::function<bool(std::string_view)>& piece,
                         std::stop_token stop = {});

}  // namespace moetune
