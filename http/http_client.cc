#include "http/http_client.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <exception>
#include <limits>

#include "base/as_field.h"
#include "base/error.h"
#include "base/format.h"
#include "base/regular_file.h"
#include "base/version.h"
#include "http/connection.h"
#include "http/http_parts.h"

namespace moetune {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using ErrorCode = boost::system::error_code;

constexpr std::size_t kMaxUrl = 4096, kPieceBytes = 16384;
constexpr std::size_t kMaxHeaderBytes = 64 << 10;  // with extensions of chunks and trailers

// Takes a piece of the body of `response`; false ends the exchange.
using Sink = std::function<bool(HttpResponse& response, std::string_view piece)>;

struct Exchange {
  const HttpRequest& request;
  const Url& url;
  bool streams;  // the time limit holds between two pieces, and the size has none
  const Sink& sink;
  std::string certificates;  // of the request's ca_file
  HttpResponse response;
  std::string step = "reach it";  // that is under way, for messages
};

bool is_clean(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

std::string message_of(const HttpRequest& request, const Url& url) {
  http::request<http::empty_body> message;
  message.version(11);
  message.method_string(request.method);
  message.target(url.target);
  const bool is_usual = url.port == (url.tls ? "443" : "80");
  const std::string host = url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
  message.set(http::field::host, is_usual ? host : host + ":" + url.port);
  message.set(http::field::user_agent, "moetune/" + std::string(version()));
  message.set(http::field::connection, "close");
  for (const auto& [name, value] : request.headers) {
    if (name.empty() || !is_clean(name) || !is_clean(value))
      throw BadInput("the header '" + name + "' holds a line end");
    message.set(name, value);
  }
  if (!request.body.empty() || request.method == "POST") message.content_length(request.body.size());
  return text_of(message.base()) + request.body;
}

void throw_if(const ErrorCode& error) {
  if (error) throw boost::system::system_error(error);
}

void take_head(const http::response_header<>& head, HttpResponse& response) {
  response.status = static_cast<int>(head.result_int());
  for (const auto& field : head) {
    std::string name = lower_case(std::string(field.name_string()));
    response.headers.emplace_back(std::move(name), std::string(field.value()));
  }
}

asio::awaitable<void> converse(Connection& connection, Exchange& exchange) {
  ErrorCode error;
  const std::string message = message_of(exchange.request, exchange.url);
  exchange.step = "send the request";
  for (std::string_view left = message; !left.empty();) {
    left.remove_prefix(co_await connection.write_some(left, error));
    throw_if(error);
  }
  exchange.step = "read the answer";
  beast::flat_buffer buffer(kMaxHeaderBytes);
  http::response_parser<http::buffer_body> parser;
  HeaderLimit limit(kMaxHeaderBytes);
  limit.watch(parser);
  parser.skip(exchange.request.method == "HEAD");
  parser.body_limit(std::numeric_limits<std::uint64_t>::max());  // the loop below bounds it
  const std::size_t head = co_await connection.read_head<false>(buffer, parser, error);
  throw_if(error);
  limit.take_head(head, parser.get());
  take_head(parser.get(), exchange.response);
  std::array<char, kPieceBytes> piece;
  std::uint64_t total = 0;
  while (!parser.is_done()) {
    parser.get().body().data = piece.data();
    parser.get().body().size = piece.size();
    parser.get().body().more = true;
    if (exchange.streams) connection.expires_after(exchange.request.timeout);
    co_await connection.read_some<false>(buffer, parser, error);
    if (error == http::error::need_buffer) error = {};
    const std::size_t got = piece.size() - parser.get().body().size;
    total += got;
    const bool is_bounded = !exchange.streams || exchange.response.status != 200;
    if (is_bounded && total > exchange.request.max_bytes)
      throw BrokenEnvironment(exchange.request.url + " sends more than the " +
                              std::to_string(exchange.request.max_bytes) + " bytes that are taken");
    if (got > 0 && !exchange.sink(exchange.response, {piece.data(), got})) co_return;
    throw_if(error);
  }
  throw_if(limit.check_trailers(parser.get()));
}

asio::awaitable<void> exchange_all(Exchange& exchange) {
  Connection connection(co_await asio::this_coro::executor);
  connection.expires_after(exchange.request.timeout);
  ErrorCode error;
  co_await connection.connect(exchange.url.host, exchange.url.port, error);
  throw_if(error);
  if (!exchange.url.tls) {
    co_await converse(connection, exchange);
    co_return;
  }
  asio::ssl::context tls(asio::ssl::context::tls_client);
  ::SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
  tls.set_verify_mode(asio::ssl::verify_peer);
  if (exchange.request.ca_file.empty()) {
    tls.set_default_verify_paths();
  } else {
    exchange.step = "trust the certificates of " + exchange.request.ca_file;
    tls.add_certificate_authority(asio::buffer(exchange.certificates));
  }
  exchange.step = "agree on TLS";
  co_await connection.start_tls(tls, exchange.url.host, error);
  throw_if(error);
  co_await converse(connection, exchange);
}

std::string reason_of(const ErrorCode& error) {
  if (error == beast::error::timeout) return "no answer in time";
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return "its headers, extensions of chunks and trailers are larger than " + std::to_string(kMaxHeaderBytes >> 10) +
           " KiB";
  return error.message();
}

HttpResponse run_exchange(const HttpRequest& request, bool streams, const Sink& sink, std::stop_token stop) {
  const Url url = parse_url(request.url);
  Exchange exchange{.request = request, .url = url, .streams = streams, .sink = sink};
  try {
    if (!request.ca_file.empty()) exchange.certificates = certificates_in(request.ca_file);
  } catch (const BadField& error) {
    throw BrokenEnvironment("the service at " + url.origin() +
                            " cannot be asked: the certificates to trust: " + error.reason());
  }
  asio::io_context io(1);
  std::exception_ptr failure;
  bool ended = false;
  asio::co_spawn(io, exchange_all(exchange), [&](std::exception_ptr error) {
    failure = error;
    ended = true;
  });
  const std::stop_callback stopper(stop, [&io] { io.stop(); });
  if (streams) {
    io.run();
  } else {
    io.run_for(request.timeout);
  }
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    throw BrokenEnvironment("the service at " + url.origin() + " failed: cannot " + exchange.step + ": " +
                            reason_of(error.code()));
  }
  if (!ended && !stop.stop_requested())
    throw BrokenEnvironment("the service at " + url.origin() + " failed: cannot " + exchange.step +
                            ": no answer in time");
  return std::move(exchange.response);
}

bool keep(HttpResponse& response, std::string_view piece) {
  response.body += piece;
  return true;
}

[[noreturn]] void no_url(const std::string& text, const char* why) {
  throw BadInput("'" + text.substr(0, 200) + "' is no URL such as http://host:7878: " + why);
}

}  // namespace

std::string Url::origin() const {
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return (tls ? "https://" : "http://") + shown + ":" + port;
}

Url parse_url(const std::string& text) {
  Url url;
  if (text.size() > kMaxUrl) no_url(text, "it is too long");
  for (const char c : text) {
    if (c <= ' ' || c == 0x7F) no_url(text, "it holds a space or a control character");
  }
  const std::size_t scheme = text.find("://");
  if (scheme == std::string::npos) no_url(text, "it has no http:// or https://");
  const std::string name = text.substr(0, scheme);
  if (name != "http" && name != "https") no_url(text, "it begins with neither http:// nor https://");
  url.tls = name == "https";
  const std::size_t begin = scheme + 3, end = std::min(text.find_first_of("/?#", begin), text.size());
  std::string authority = text.substr(begin, end - begin);
  if (authority.find('@') != std::string::npos) no_url(text, "it names a user; a token goes into a file");
  url.port = url.tls ? "443" : "80";
  const std::size_t bracket = authority.starts_with('[') ? authority.find(']') : std::string::npos;
  const std::size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) {
    url.port = authority.substr(colon + 1);
    const bool is_number = !url.port.empty() && url.port.size() <= 5 &&
                           std::all_of(url.port.begin(), url.port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || std::stoi(url.port) < 1 || std::stoi(url.port) > 65535) no_url(text, "its port is none");
    authority.resize(colon);
  }
  url.host = bracket == std::string::npos ? authority : authority.substr(1, bracket - 1);
  if (url.host.empty()) no_url(text, "it names no host");
  const std::size_t fragment = std::min(text.find('#', end), text.size());
  url.target = text.substr(end, fragment - end);
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  return url;
}

HttpRequest request_to(const ServiceAddress& service, const std::string& path) {
  std::string url = service.url;
  while (url.ends_with('/')) url.pop_back();
  HttpRequest request{.url = url + path, .headers = {}, .body = {}, .ca_file = service.ca_file};
  if (!service.token.empty()) request.headers.emplace_back("Authorization", "Bearer " + service.token);
  return request;
}

std::string HttpResponse::header(std::string_view lower_case_name) const {
  for (const auto& [name, value] : headers) {
    if (name == lower_case_name) return value;
  }
  return "";
}

std::string certificates_in(const std::string& ca_file) {
  constexpr std::size_t kMostPem = 1 << 20;
  return as_field("ca_file", [&] { return read_regular_file(ca_file, kMostPem); });
}

HttpResponse http_request(const HttpRequest& request) { return run_exchange(request, false, keep, {}); }

HttpResponse http_stream(const HttpRequest& request, const std::function<bool(std::string_view)>& piece,
                         std::stop_token stop) {
  const Sink sink = [&](HttpResponse& response, std::string_view bytes) {
    return response.status == 200 ? piece(bytes) : keep(response, bytes);
  };
  return run_exchange(request, true, sink, std::move(stop));
}

}  // namespace moetune
