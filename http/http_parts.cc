#include "http/http_parts.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/write.hpp>
#include <cctype>
#include <sstream>

#include "base/format.h"

namespace moetune {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using NetError = boost::system::error_code;

constexpr std::size_t kMaxQueryFields = 32;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// nullopt for a sequence that is none, and for a zero byte. In a path "%2F" stays as it is: it is part of a name there,
// and no separator.
std::optional<std::string> percent_decoded(std::string_view text, bool is_query) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char c = text[at];
    if (c == '%') {
      const int high = at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
      const int low = high >= 0 ? hex_digit(text[at + 2]) : -1;
      if (low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      at += 2;
      if (c == '/' && !is_query) {
        decoded += "%2F";
        continue;
      }
    } else if (is_query && c == '+') {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    decoded += c;
  }
  return decoded;
}

bool read_query(std::string_view text, std::map<std::string, std::string>& query) {
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), field.size() + 1));
    if (field.empty()) continue;
    const std::size_t equals = std::min(field.find('='), field.size());
    const auto name = percent_decoded(field.substr(0, equals), true);
    const auto value = percent_decoded(field.substr(std::min(field.size(), equals + 1)), true);
    if (!name || !value || query.size() == kMaxQueryFields) return false;
    query.emplace(*name, *value);
  }
  return true;
}

std::size_t bytes_of(const http::fields& fields) {
  std::size_t bytes = 0;
  for (const auto& field : fields) bytes += field.name_string().size() + field.value().size() + 4;
  return bytes;
}

// Takes "http://HOST" off a target that names the whole URL, which goes before the Host header (RFC 9112, 3.2.2).
std::optional<std::string_view> take_authority(std::string_view& target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const std::string_view rest = target.substr(scheme.size());
    const std::string_view host = rest.substr(0, rest.find_first_of("/?"));
    target = host.size() < rest.size() ? rest.substr(host.size()) : "/";
    return host;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ServerRequest> request_of(const IncomingHead& head, const std::string& peer) {
  ServerRequest request;
  request.method = std::string(head.method_string());
  request.peer = peer;
  std::string_view target(head.target().data(), head.target().size());
  const std::optional<std::string_view> host = take_authority(target);
  if (!target.starts_with('/') || head.count(http::field::host) > 1) return std::nullopt;
  const std::size_t question = std::min(target.find('?'), target.size());
  const auto path = percent_decoded(target.substr(0, question), false);
  if (!path || !read_query(target.substr(std::min(target.size(), question + 1)), request.query)) return std::nullopt;
  request.path = *path;
  for (const auto& field : head) {
    std::string name = lower_case(std::string(field.name_string()));
    request.headers.emplace(std::move(name), std::string(field.value()));
  }
  if (host) request.headers["host"] = std::string(*host);
  return request;
}

std::string head_of(const ServerResponse& response, unsigned version, bool keep_alive, bool is_head) {
  http::response<http::empty_body> answer(static_cast<http::status>(response.status), version);
  for (const auto& [name, value] : response.headers) answer.set(name, value);
  answer.keep_alive(keep_alive);
  if (response.pieces) {
    answer.content_length(response.bytes);
  } else if (!is_head || !response.stream) {
    answer.content_length(response.body.size());
  }
  std::ostringstream text;
  text << answer.base();
  return text.str();
}

std::string text_of(const IncomingHead& head) {
  std::ostringstream text;
  text << head;
  return text.str();
}

ServerResponse http_refusal(int status, const char* code, const char* message) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = format("{\"error\": {\"code\": \"%s\", \"message\": \"%s\"}}", code, message),
          .stream = {}};
}

ServerResponse http_refusal(const NetError& error) {
  if (error == http::error::body_limit) return http_refusal(413, "too_large", "The body is too large.");
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return http_refusal(431, "too_large", "The headers, extensions of chunks and trailers are too large.");
  return http_refusal(400, "bad_request", "This is no HTTP request.");
}

void HeaderLimit::take_head(std::size_t bytes, const http::fields& fields) {
  left_ -= std::min(left_, bytes);
  head_ = bytes_of(fields);
}

NetError HeaderLimit::check_trailers(const http::fields& fields) { return take(bytes_of(fields) - head_); }

NetError HeaderLimit::take(std::size_t bytes) {
  if (bytes > left_) return http::error::header_limit;
  left_ -= bytes;
  return {};
}

std::string forwarded_peer(const IncomingHead& head) {
  std::string last;
  for (const auto& field : head) {
    if (beast::iequals(field.name_string(), "X-Forwarded-For")) last = std::string(field.value());
  }
  last = last.substr(last.rfind(',') + 1);  // all of it without a comma
  const std::size_t begin = last.find_first_not_of(" \t"), end = last.find_last_not_of(" \t");
  if (begin == std::string::npos) return "";
  NetError error;
  const auto address = boost::asio::ip::make_address(last.substr(begin, end - begin + 1), error);
  return error ? "" : address.to_string();
}

std::string ServerRequest::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? "" : found->second;
}

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("-._~").find(c) != std::string_view::npos;
    encoded += is_plain ? std::string(1, c) : format("%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return encoded;
}

}  // namespace moetune
