#include "serve/http_server.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cctype>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/format.h"

namespace moetune {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using NetError = boost::system::error_code;
using IncomingMessage = http::request<http::string_body>;
using OutgoingMessage = http::response<http::string_body>;

constexpr std::chrono::milliseconds kStreamPoll{100};  // also gathers what happens meanwhile into one write
constexpr std::size_t kMaxQueryFields = 32;
constexpr std::chrono::seconds kDrainTime{2};
constexpr std::size_t kMostDrained = std::size_t{8} << 20;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// nullopt for a sequence that is none, and for a zero byte.
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

// nullopt for a target that is none.
std::optional<ServerRequest> request_of(IncomingMessage& message, const std::string& peer) {
  ServerRequest request;
  request.method = std::string(message.method_string());
  request.peer = peer;
  std::string_view target(message.target().data(), message.target().size());
  if (!target.starts_with('/')) return std::nullopt;
  const std::size_t question = std::min(target.find('?'), target.size());
  const auto path = percent_decoded(target.substr(0, question), false);
  if (!path || !read_query(target.substr(std::min(target.size(), question + 1)), request.query))
    return std::nullopt;
  request.path = *path;
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    request.headers.emplace(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message.body());
  return request;
}

OutgoingMessage answer_of(const ServerResponse& response, unsigned version, bool keep_alive) {
  OutgoingMessage answer(static_cast<http::status>(response.status), version);
  for (const auto& [name, value] : response.headers) answer.set(name, value);
  answer.keep_alive(keep_alive);
  answer.body() = response.body;
  answer.prepare_payload();
  return answer;
}

ServerResponse refusal(int status, const char* code, const char* message) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json"}},
          .body = format("{\"error\": {\"code\": \"%s\", \"message\": \"%s\"}}", code, message),
          .stream = {}};
}

ServerResponse refusal_of(const NetError& error) {
  if (error == http::error::body_limit) return refusal(413, "too_large", "The body is larger than is taken.");
  if (error == http::error::header_limit)
    return refusal(431, "too_large", "The headers are larger than is taken.");
  return refusal(400, "bad_request", "This is no HTTP request.");
}

bool has_left(tcp::socket& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, ServerHandler handler)
      : options_(options),
        handler_(std::move(handler)),
        io_(static_cast<int>(options.threads)),
        acceptor_(io_) {
    open_tls();
    listen();
    asio::co_spawn(io_, accept_all(), [](std::exception_ptr) {});
    for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { io_.run(); });
  }
  ~Impl() {
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  std::uint16_t port() const { return port_; }
  std::size_t connections() const { return connections_; }

 private:
  void open_tls() {
    if (options_.tls_cert.empty()) return;
    tls_.emplace(asio::ssl::context::tls_server);
    ::SSL_CTX_set_min_proto_version(tls_->native_handle(), TLS1_2_VERSION);
    NetError error;
    tls_->use_certificate_chain_file(options_.tls_cert, error);
    if (error)
      throw BadField("tls_cert", options_.tls_cert + " is no certificate in PEM: " + error.message());
    tls_->use_private_key_file(options_.tls_key, asio::ssl::context::pem, error);
    if (error)
      throw BadField("tls_key", options_.tls_key + " is not its private key in PEM: " + error.message());
  }

  void listen() {
    NetError error;
    const auto address = asio::ip::make_address(options_.host, error);
    if (error)
      throw BadField("listen", "'" + options_.host + "' is no numeric address such as 127.0.0.1 or ::1");
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw BrokenEnvironment("cannot listen on " + options_.host + " port " + std::to_string(options_.port) +
                              ": " + error.message());
    }
    port_ = acceptor_.local_endpoint().port();
  }

  asio::awaitable<void> accept_all() {
    for (;;) {
      NetError error;
      const asio::any_io_executor strand = asio::make_strand(io_);
      tcp::socket socket =
          co_await acceptor_.async_accept(strand, asio::redirect_error(asio::use_awaitable, error));
      if (error) {  // out of descriptors, say
        asio::steady_timer pause(io_, std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      if (connections_ >= options_.max_connections) continue;  // closes it
      ++connections_;
      asio::co_spawn(strand, serve(std::move(socket)), [this](std::exception_ptr) { --connections_; });
    }
  }

  asio::awaitable<void> serve(tcp::socket socket) {
    NetError error;
    const auto remote = socket.remote_endpoint(error);
    if (error) co_return;
    const std::string peer = remote.address().to_string();
    socket.set_option(tcp::no_delay(true), error);
    beast::tcp_stream connection(std::move(socket));
    if (!tls_) {
      co_await converse(connection, peer);
      connection.socket().shutdown(tcp::socket::shutdown_send, error);
      co_return;
    }
    beast::ssl_stream<beast::tcp_stream> stream(std::move(connection), *tls_);
    beast::get_lowest_layer(stream).expires_after(options_.timeout);
    co_await stream.async_handshake(asio::ssl::stream_base::server,
                                    asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    co_await converse(stream, peer);
    beast::get_lowest_layer(stream).expires_after(options_.timeout);
    co_await stream.async_shutdown(asio::redirect_error(asio::use_awaitable, error));
  }

  template <typename Stream>
  asio::awaitable<void> converse(Stream& stream, const std::string& peer) {
    beast::flat_buffer buffer;
    for (;;) {
      http::request_parser<http::string_body> parser;
      parser.header_limit(options_.max_header);
      parser.body_limit(options_.max_body);
      beast::get_lowest_layer(stream).expires_after(options_.timeout);
      NetError error;
      co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
      if (error && (error == http::error::end_of_stream ||
                    error.category() != NetError(http::error::bad_method).category()))
        co_return;
      if (error) {
        co_await write(stream, answer_of(refusal_of(error), 11, false));
        co_await drain(stream);
        co_return;
      }
      IncomingMessage message = parser.release();
      const bool keep_alive = message.keep_alive();
      const ServerResponse response = respond(message, peer);
      if (response.stream) {
        co_await write_stream(stream, response);
        co_return;
      }
      if (!co_await write(stream, answer_of(response, message.version(), keep_alive)) || !keep_alive)
        co_return;
    }
  }

  // Reads on for a while: closing with bytes unread would take the answer away from a client that still sends.
  template <typename Stream>
  asio::awaitable<void> drain(Stream& stream) {
    std::array<char, 16384> bytes;
    NetError error;
    if (!tls_) beast::get_lowest_layer(stream).socket().shutdown(tcp::socket::shutdown_send, error);
    beast::get_lowest_layer(stream).expires_after(kDrainTime);
    for (std::size_t total = 0; total < kMostDrained;) {
      const std::size_t got = co_await stream.async_read_some(
          asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
      total += got;
    }
  }

  ServerResponse respond(IncomingMessage& message, const std::string& peer) {
    try {
      const std::optional<ServerRequest> request = request_of(message, peer);
      if (!request) return refusal(400, "bad_request", "The address of the request cannot be read.");
      return handler_(*request);
    } catch (const std::exception&) {
      return refusal(500, "internal", "The service failed at this request.");
    }
  }

  template <typename Stream>
  asio::awaitable<bool> write(Stream& stream, OutgoingMessage answer) {
    beast::get_lowest_layer(stream).expires_after(options_.timeout);
    NetError error;
    co_await http::async_write(stream, answer, asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }

  template <typename Stream>
  asio::awaitable<bool> write_text(Stream& stream, const std::string& text) {
    beast::get_lowest_layer(stream).expires_after(options_.timeout);
    NetError error;
    co_await asio::async_write(stream, asio::buffer(text), asio::redirect_error(asio::use_awaitable, error));
    beast::get_lowest_layer(stream).expires_never();
    co_return !error;
  }

  // Until the client leaves. The body ends with the connection.
  template <typename Stream>
  asio::awaitable<void> write_stream(Stream& stream, const ServerResponse& response) {
    struct Counted {
      explicit Counted(std::atomic<std::size_t>& counter) : count(counter) { ++count; }
      ~Counted() { --count; }
      std::atomic<std::size_t>& count;
    };
    const Counted counted(streams_);
    if (streams_ > options_.max_streams) {
      co_await write(
          stream, answer_of(refusal(503, "too_many_streams", "Too many clients watch already."), 11, false));
      co_return;
    }
    std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
    if (!co_await write_text(stream, head + "\r\n: welcome\n\n")) co_return;
    auto last = std::chrono::steady_clock::now();
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
      std::string text = response.stream();
      const auto now = std::chrono::steady_clock::now();
      if (text.empty() && now - last >= options_.heartbeat) text = ": heartbeat\n\n";
      if (!text.empty()) {
        last = now;
        if (!co_await write_text(stream, text)) co_return;
      }
      timer.expires_after(kStreamPoll);
      NetError error;
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (error || has_left(beast::get_lowest_layer(stream).socket())) co_return;
    }
  }

  const HttpServerOptions options_;
  const ServerHandler handler_;
  std::optional<asio::ssl::context> tls_;
  std::atomic<std::size_t> connections_{0}, streams_{0};
  std::uint16_t port_ = 0;
  asio::io_context io_;  // its coroutines use all of the above
  tcp::acceptor acceptor_;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(const HttpServerOptions& options, ServerHandler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->port(); }

std::size_t HttpServer::connections() const { return impl_->connections(); }

std::string ServerRequest::header(const std::string& lower_case_name) const {
  const auto found = headers.find(lower_case_name);
  return found == headers.end() ? "" : found->second;
}

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                          std::string_view("-._~").find(c) != std::string_view::npos;
    encoded +=
        is_plain ? std::string(1, c) : format("%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return encoded;
}

}  // namespace moetune
