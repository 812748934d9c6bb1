// The requests of `moetune sync` to a service, each exchange bounded in time and size whatever the server does.
//
// Thread-safe: no state but the address. No redirect is followed. Errors: ServiceFailure for a service that cannot be
// reached or does not answer as it should, which another try may mend; BadInput for a URL that is none.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>

#include "base/error.h"
#include "http/http_client.h"

namespace moetune {

class ServiceFailure : public BrokenEnvironment {
 public:
  explicit ServiceFailure(const std::string& what, double wait_s = 0) : BrokenEnvironment(what), wait_s_(wait_s) {}
  double wait_s() const { return wait_s_; }  // how long the service wants to be left alone; 0: it did not say

 private:
  double wait_s_;
};

class ServiceClient {
 public:
  // Throws BadInput.
  ServiceClient(ServiceAddress address, std::stop_token stop);

  // The answer, if it is a 200, 202, 304 or 404.
  HttpResponse get(const std::string& path, std::uint64_t max_bytes, const std::string& etag = "") const;
  // The answer, if it is not an order to wait (429, 5xx) or to ask for access (401, 403, 404).
  HttpResponse post(const std::string& path, const std::string& body) const;

 private:
  HttpResponse exchange(HttpRequest request) const;

  ServiceAddress address_;
  std::stop_token stop_;
};

// "not_found: There is no such pack." of an error's body, made safe to print; "" if it has none.
std::string error_text(const HttpResponse& response);

// A text of the service's, made safe to print.
std::string plain_text(std::string text);

}  // namespace moetune
