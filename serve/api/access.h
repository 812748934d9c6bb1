// Decides who may do what: tokens with roles, sessions of browsers, and whether a request was meant for this service
// at all.
//
// A service's token file (serve/api/token_file.h) has a role in each line. Thread-safe. Errors: BadInput for the file.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "http/http_server.h"

namespace moetune {

enum class ClientRole { none, read, miss, submit };  // each may do what those before it may

class Access {
 public:
  // Without tokens everybody may do everything. `hosts`: names by which the service is reached, beside localhost.
  Access(const std::set<std::string>& hosts, bool behind_tls,
         std::chrono::seconds session_lasts = std::chrono::hours(12));
  void read_tokens(const std::filesystem::path& file);
  bool has_tokens() const { return !tokens_.empty(); }

  // By the Authorization header, else by the session's cookie.
  ClientRole role_of(const ServerRequest& request) const;
  ClientRole role_of_token(const std::string& token) const;

  // "" if Host and Origin are this service's; else what is wrong.
  std::string foreign(const ServerRequest& request) const;

  // The Set-Cookie of a new session.
  std::string open_session(ClientRole role);

 private:
  struct Token {
    ClientRole role;
    std::string digest;
  };
  struct BrowserSession {
    ClientRole role;
    std::chrono::steady_clock::time_point ends;
  };

  std::set<std::string> hosts_;  // in lower case
  const bool behind_tls_;
  const std::chrono::seconds session_lasts_;
  std::vector<Token> tokens_;
  mutable std::mutex mutex_;
  std::map<std::string, BrowserSession> sessions_;  // by the digest of their secret
};

// A bucket of requests for each client: `burst` at once, then `per_minute`. Thread-safe.
class RateLimit {
 public:
  RateLimit(double burst, double per_minute) : burst_(burst), per_second_(per_minute / 60) {}

  // Takes one. Returns after how many seconds to come again, 0 if it is granted.
  int take(const std::string& client);

 private:
  struct Bucket {
    double left;
    std::chrono::steady_clock::time_point at;
  };
  const double burst_, per_second_;
  std::mutex mutex_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace moetune
