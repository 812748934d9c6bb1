#include "serve/server_tls.h"

#include <openssl/ssl.h>

#include "base/error.h"

namespace moetune {

std::optional<boost::asio::ssl::context> server_tls(const HttpServerOptions& options) {
  namespace ssl = boost::asio::ssl;
  std::optional<ssl::context> tls;
  if (options.tls_cert.empty()) return tls;
  tls.emplace(ssl::context::tls_server);
  ::SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  boost::system::error_code error;
  tls->use_certificate_chain_file(options.tls_cert, error);
  if (error) throw BadField("tls_cert", options.tls_cert + " is no certificate in PEM: " + error.message());
  tls->use_private_key_file(options.tls_key, ssl::context::pem, error);
  if (error)
    throw BadField("tls_key", options.tls_key + " is not its private key in PEM: " + error.message());
  return tls;
}

}  // namespace moetune
