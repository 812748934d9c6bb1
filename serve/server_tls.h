// The TLS of an HTTP server.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <optional>

#include "serve/http_server.h"

namespace moetune {

// With the certificate and the key of `options`; nullopt if it names none. Throws BadField for a file that is none.
std::optional<boost::asio::ssl::context> server_tls(const HttpServerOptions& options);

}  // namespace moetune
