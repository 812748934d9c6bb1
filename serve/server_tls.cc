#include "serve/server_tls.h"

#include <openssl/ssl.h>

#include "base/error.h"
#include "base/regular_file.h"

namespace moetune {

namespace {

constexpr std::size_t kMostPem = 1 << 20;

std::string pem_of(const char* field, const std::string& file) {
  try {
    return read_regular_file(file, kMostPem);
  } catch (const BadInput& error) {
    throw BadField(field, error.what());
  }
}

}  // namespace

std::optional<boost::asio::ssl::context> server_tls(const HttpServerOptions& options) {
  namespace ssl = boost::asio::ssl;
  std::optional<ssl::context> tls;
  if (options.tls_cert.empty()) return tls;
  tls.emplace(ssl::context::tls_server);
  ::SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  boost::system::error_code error;
  const std::string chain = pem_of("tls_cert", options.tls_cert), key = pem_of("tls_key", options.tls_key);
  tls->use_certificate_chain(boost::asio::buffer(chain), error);
  if (error) throw BadField("tls_cert", options.tls_cert + " is no certificate in PEM: " + error.message());
  tls->use_private_key(boost::asio::buffer(key), ssl::context::pem, error);
  if (error)
    throw BadField("tls_key", options.tls_key + " is not its private key in PEM: " + error.message());
  return tls;
}

}  // namespace moetune
