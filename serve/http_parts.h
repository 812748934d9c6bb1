// The messages of the HTTP server: between Beast's and those of http_server.h. Pure functions; thread-safe.
#pragma once

#include <boost/beast/http.hpp>
#include <optional>
#include <string>

#include "serve/http_server.h"

namespace moetune {

using IncomingMessage = boost::beast::http::request<boost::beast::http::string_body>;
using OutgoingMessage = boost::beast::http::response<boost::beast::http::string_body>;

// Takes the body out of `message`. nullopt for a target that is none, and for two Host headers, of which a proxy in
// front may have seen the other.
std::optional<ServerRequest> request_of(IncomingMessage& message, const std::string& peer);

// Status, headers and the length of the body; its bytes unless it comes in pieces or `is_head`.
OutgoingMessage answer_of(const ServerResponse& response, unsigned version, bool keep_alive, bool is_head);

// {"error": {"code", "message"}}
ServerResponse http_refusal(int status, const char* code, const char* message);
// Of what Beast could not read.
ServerResponse http_refusal(const boost::system::error_code& error);

// The address that a proxy states for its client, the last of X-Forwarded-For; "" if there is none.
std::string forwarded_peer(const IncomingMessage& message);

}  // namespace moetune
