#include "serve/api/access.h"

#include <algorithm>
#include <cmath>

#include "base/ed25519.h"
#include "base/error.h"
#include "base/format.h"
#include "base/random_text.h"
#include "serve/api/token_file.h"

namespace moetune {
namespace {

constexpr std::size_t kShortestToken = 16, kSecretBytes = 32, kMostSessions = 1000, kMostBuckets = 10'000;
constexpr std::string_view kCookie = "moetune_session=";

// "host:port", "[::1]:port" without its port; in lower case.
std::string host_of(std::string text) {
  const std::size_t bracket = text.starts_with('[') ? text.find(']') : std::string::npos;
  if (bracket != std::string::npos) {
    text = text.substr(1, bracket - 1);
  } else {
    text.resize(std::min(text.find(':'), text.size()));
  }
  return lower_case(std::move(text));
}

ClientRole role_named(const std::string& name) {
  if (name == "read") return ClientRole::read;
  if (name == "miss") return ClientRole::miss;
  return name == "submit" ? ClientRole::submit : ClientRole::none;
}

std::string cookie_of(const ServerRequest& request) {
  const std::string cookies = request.header("cookie");
  for (std::size_t at = 0; (at = cookies.find(kCookie, at)) != std::string::npos;) {
    const bool is_whole_name = at == 0 || cookies[at - 1] == ' ' || cookies[at - 1] == ';';
    at += kCookie.size();
    if (is_whole_name) return cookies.substr(at, std::min(cookies.find(';', at), cookies.size()) - at);
  }
  return "";
}

}  // namespace

Access::Access(const std::set<std::string>& hosts, bool behind_tls, std::chrono::seconds session_lasts)
    : behind_tls_(behind_tls), session_lasts_(session_lasts) {
  for (const std::string& host : hosts) hosts_.insert(lower_case(host));
}

void Access::read_tokens(const std::filesystem::path& file) try {
  for (const NamedToken& one : read_token_file(file)) {
    const ClientRole role = role_named(one.role);
    const std::string where = file.string() + " line " + std::to_string(one.line);
    if (role == ClientRole::none) throw BadInput(where + " is no 'read TOKEN', 'miss TOKEN' or 'submit TOKEN'");
    if (one.token.size() < kShortestToken)
      throw BadInput(where + ": a token has at least " + std::to_string(kShortestToken) +
                     " characters; `openssl rand -hex 32` makes one");
    tokens_.push_back({role, sha256_hex(one.token)});
  }
} catch (const BadInput& error) {
  throw BadField("token_file", error.what());
}

ClientRole Access::role_of_token(const std::string& token) const {
  const std::string digest = sha256_hex(token);  // what a comparison's time says of it is no use
  ClientRole role = ClientRole::none;
  for (const Token& known : tokens_) {
    if (digest == known.digest) role = std::max(role, known.role);
  }
  return role;
}

ClientRole Access::role_of(const ServerRequest& request) const {
  const std::string given = request.header("authorization");
  if (given.size() > 7 && lower_case(given.substr(0, 7)) == "bearer ") {
    if (!has_tokens()) return ClientRole::submit;
    return role_of_token(given.substr(7));
  }
  if (!has_tokens()) return ClientRole::submit;
  const std::string secret = cookie_of(request);
  if (secret.empty()) return ClientRole::none;
  const std::string name = sha256_hex(secret);
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(name);
  if (found == sessions_.end() || found->second.ends < std::chrono::steady_clock::now()) return ClientRole::none;
  return found->second.role;
}

std::string Access::foreign(const ServerRequest& request) const {
  const std::string named = request.header("host"), host = host_of(named);
  const bool is_local = host == "localhost" || host == "127.0.0.1" || host == "::1";
  if (!is_local && !hosts_.contains(host))
    return "The service does not answer to the name '" + host.substr(0, 100) + "'; --host NAME adds one.";
  const std::string origin = request.header("origin");
  if (origin.empty()) return "";
  if (origin == "http://" + named && !behind_tls_) return "";
  if (origin == "https://" + named && behind_tls_) return "";
  return "A page of another origin may not use this service.";
}

std::string Access::open_session(ClientRole role) {
  const std::string secret = random_hex(kSecretBytes);
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  std::erase_if(sessions_, [&](const auto& entry) { return entry.second.ends < now; });
  if (sessions_.size() >= kMostSessions) {
    const auto oldest =
        std::ranges::min_element(sessions_, [](const auto& a, const auto& b) { return a.second.ends < b.second.ends; });
    sessions_.erase(oldest);
  }
  sessions_[sha256_hex(secret)] = {role, now + session_lasts_};
  return std::string(kCookie) + secret +
         "; Path=/; HttpOnly; SameSite=Strict; Max-Age=" + std::to_string(session_lasts_.count()) +
         (behind_tls_ ? "; Secure" : "");
}

int RateLimit::take(const std::string& client) {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  const auto filled = [&](const Bucket& bucket) {
    const double seconds = std::chrono::duration<double>(now - bucket.at).count();
    return std::min(burst_, bucket.left + seconds * per_second_);
  };
  if (buckets_.size() >= kMostBuckets)
    std::erase_if(buckets_, [&](const auto& entry) { return filled(entry.second) >= burst_; });
  if (buckets_.size() >= kMostBuckets && !buckets_.contains(client)) return 60;
  Bucket& bucket = buckets_.try_emplace(client, Bucket{burst_, now}).first->second;
  bucket = {filled(bucket), now};
  if (bucket.left < 1) return static_cast<int>(std::ceil((1 - bucket.left) / per_second_));
  bucket.left -= 1;
  return 0;
}

}  // namespace moetune
