// The messages of the HTTP server: between Beast's and those of http_server.h. Pure functions; thread-safe.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "http/http_server.h"

namespace moetune {

using IncomingHead = boost::beast::http::request_header<>;

// All of a request but its body. nullopt for a target that is none, and for two Host headers, of which a proxy in front
// may have seen the other.
std::optional<ServerRequest> request_of(const IncomingHead& head, const std::string& peer);

// All of an answer but its body: status, headers and the length of the body, as it is sent.
std::string head_of(const ServerResponse& response, unsigned version, bool keep_alive, bool is_head);

// A client's head as it is sent.
std::string text_of(const IncomingHead& head);

// {"error": {"code", "message"}}
ServerResponse http_refusal(int status, const char* code, const char* message);
// The answer to a request that Beast could not read.
ServerResponse http_refusal(const boost::system::error_code& error);

// The address that a proxy states for its client, the last of X-Forwarded-For; "" if there is none.
std::string forwarded_peer(const IncomingHead& head);

// Bounds what a message has beside its body: its head, the extensions of its chunks and its trailers count together.
// A buffer of as many bytes bounds the last two while they are read: Beast wants all trailers in it at once.
class HeaderLimit {
 public:
  using Error = boost::system::error_code;

  explicit HeaderLimit(std::size_t bytes) : left_(bytes) {}
  HeaderLimit(const HeaderLimit&) = delete;

  // Before the head is read; for as long as both live.
  template <typename Parser>
  void watch(Parser& parser) {
    parser.header_limit(static_cast<std::uint32_t>(left_));
    parser.on_chunk_header(count_extensions_);
  }
  // Once the head is read, which took `bytes`.
  void take_head(std::size_t bytes, const boost::beast::http::fields& fields);
  // Once all is read: trailers have become fields.
  Error check_trailers(const boost::beast::http::fields& fields);

 private:
  Error take(std::size_t bytes);

  std::size_t left_, head_ = 0;
  std::function<void(std::uint64_t, boost::beast::string_view, Error&)> count_extensions_ =
      [this](std::uint64_t, boost::beast::string_view extensions, Error& error) { error = take(extensions.size()); };
};

}  // namespace moetune
