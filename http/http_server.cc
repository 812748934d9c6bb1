#include "http/http_server.h"

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <mutex>
#include <optional>
#include <thread>

#include "base/as_field.h"
#include "base/error.h"
#include "base/regular_file.h"
#include "http/connection.h"
#include "http/http_parts.h"

namespace moetune {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using NetError = boost::system::error_code;

constexpr std::chrono::milliseconds kStreamPoll{100};  // also gathers what happens meanwhile into one write
constexpr std::chrono::seconds kDrainTime{2};
constexpr std::size_t kMostDrained = std::size_t{8} << 20;
constexpr int kSendBuffer = 256 << 10;
constexpr std::size_t kMostPem = 1 << 20;
constexpr const char* kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr const char* kMalformed = "The path, the query or the Host of the request is malformed.";
constexpr const char* kFailed = "The service failed at this request.";
constexpr double kSlowestReader = 10e3;  // bytes a second, beside the time of each piece

bool has_left(tcp::socket& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

// A client of HTTP/1.0 knows no answer before the final one.
bool expects_something(const IncomingHead& head) { return head.version() >= 11 && head.count(http::field::expect) > 0; }

// Whether the client has left, or the connection has failed: nobody is there to be answered.
bool is_end(const NetError& error) {
  return error == http::error::end_of_stream || error.category() != NetError(http::error::bad_method).category();
}

std::string pem_of(const char* field, const std::string& file) {
  return as_field(field, [&] { return read_regular_file(file, kMostPem); });
}

// With the certificate and the key of `options`; nullopt if it names none. Throws BadField for a file that is none.
std::optional<asio::ssl::context> server_tls(const HttpServerOptions& options) {
  std::optional<asio::ssl::context> tls;
  if (options.tls_cert.empty()) return tls;
  tls.emplace(asio::ssl::context::tls_server);
  ::SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  NetError error;
  const std::string chain = pem_of("tls_cert", options.tls_cert), key = pem_of("tls_key", options.tls_key);
  tls->use_certificate_chain(asio::buffer(chain), error);
  if (error) throw BadField("tls_cert", options.tls_cert + " is no certificate in PEM: " + error.message());
  tls->use_private_key(asio::buffer(key), asio::ssl::context::pem, error);
  if (error) throw BadField("tls_key", options.tls_key + " is not its private key in PEM: " + error.message());
  return tls;
}

// How many of something each address has. Thread-safe.
class PeerCounts {
 public:
  // False if it has `most` already; 0 bounds nothing.
  bool add(const std::string& peer, std::size_t most) {
    const std::lock_guard lock(mutex_);
    std::size_t& count = counts_[peer];
    if (most > 0 && count >= most) return false;
    ++count;
    return true;
  }
  void remove(const std::string& peer) {
    const std::lock_guard lock(mutex_);
    const auto found = counts_.find(peer);
    if (found != counts_.end() && --found->second == 0) counts_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::size_t> counts_;
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, ServerHandler handler)
      : options_(options),
        handler_(std::move(handler)),
        tls_(server_tls(options)),
        io_(static_cast<int>(options.threads)),
        handlers_(options.handler_threads),
        acceptor_(io_) {
    listen();
    asio::co_spawn(io_, accept_all(), [](std::exception_ptr) {});
    for (std::size_t i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { serve_connections(); });
  }
  ~Impl() {
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    handlers_.stop();
    handlers_.join();
  }

  std::uint16_t port() const { return port_; }
  std::size_t connections() const { return connections_; }
  std::uint64_t closed_connections() const { return closed_connections_; }

 private:
  void serve_connections() {
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception&) {  // out of memory: that connection is lost, and no other
      }
    }
  }

  void listen() {
    NetError error;
    const auto address = asio::ip::make_address(options_.host, error);
    if (error) throw BadField("listen", "'" + options_.host + "' is no numeric address such as 127.0.0.1 or ::1");
    const tcp::endpoint endpoint(address, options_.port);
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw BrokenEnvironment("cannot listen on " + options_.host + " port " + std::to_string(options_.port) + ": " +
                              error.message());
    }
    port_ = acceptor_.local_endpoint().port();
  }

  // Until the server ends, whatever fails: without it nobody would be served, and nothing would say so.
  asio::awaitable<void> accept_all() {
    for (;;) {
      bool failed = false;
      try {
        failed = !co_await accept_one();
      } catch (const std::exception&) {  // out of memory
        failed = true;
      }
      if (!failed) continue;
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      NetError error;
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }

  asio::awaitable<bool> accept_one() {
    NetError error;
    const asio::any_io_executor strand = asio::make_strand(io_);
    tcp::socket socket = co_await acceptor_.async_accept(strand, asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return false;  // out of descriptors, say
    const auto remote = socket.remote_endpoint(error);
    if (error) co_return true;  // it has left
    const std::string peer = remote.address().to_string();
    // Those of a proxy are of many clients.
    const std::size_t most = options_.behind_proxy ? 0 : options_.max_connections_each;
    if (connections_ >= options_.max_connections || !peers_.add(peer, most)) {
      ++closed_connections_;
      co_return true;
    }
    ++connections_;
    const auto ended = [this, peer](std::exception_ptr) {
      --connections_;
      peers_.remove(peer);
    };
    try {
      asio::co_spawn(strand, serve(std::move(socket), peer), ended);
    } catch (const std::exception&) {
      ended({});
      throw;
    }
    co_return true;
  }

  asio::awaitable<void> serve(tcp::socket socket, std::string peer) {
    NetError error;
    socket.set_option(tcp::no_delay(true), error);
    // Else the system makes it of megabytes, and a slow reader seems to take nothing for as long as these last.
    socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), error);
    Connection connection(std::move(socket));
    connection.expires_after(options_.timeout);
    if (tls_) co_await connection.accept_tls(*tls_, error);
    if (error) co_return;
    co_await converse(connection, peer);
    connection.expires_after(options_.timeout);
    co_await connection.shutdown(error);
  }

  struct Answering {
    unsigned version = 11;
    bool keep_alive = false, is_head = false;
  };
  struct Incoming {
    ServerRequest request;
    Answering how;
  };
  using RequestParser = http::request_parser<http::string_body>;

  asio::awaitable<void> converse(Connection& connection, const std::string& peer) {
    beast::flat_buffer buffer(options_.max_header);
    for (;;) {
      const std::optional<Incoming> incoming = co_await read_request(connection, buffer, peer);
      if (!incoming) co_return;
      const Answering how = incoming->how;
      const ServerResponse response = co_await respond(incoming->request);
      if (response.stream && !how.is_head) {
        co_await write_stream(connection, response, incoming->request.peer);
        co_return;
      }
      if (!co_await write(connection, response, how) || !how.keep_alive) co_return;
    }
  }

  // nullopt if the connection ends with it: the client has left, or has its refusal. Nobody looks at trailers.
  asio::awaitable<std::optional<Incoming>> read_request(Connection& connection, beast::flat_buffer& buffer,
                                                        const std::string& peer) {
    RequestParser parser;
    HeaderLimit limit(options_.max_header);
    limit.watch(parser);
    parser.body_limit(options_.max_body);
    connection.expires_after(options_.timeout);
    NetError error;
    const std::size_t bytes = co_await connection.read_head<true>(buffer, parser, error);
    std::optional<ServerResponse> refusal;
    std::optional<ServerRequest> request;
    if (!error) {
      limit.take_head(bytes, parser.get());
      request = request_of(parser.get(), client_of(parser.get(), peer));
      refusal = refusal_of_head(parser, request);
    }
    const Answering how{.version = parser.get().version(),
                        .keep_alive = !error && parser.get().keep_alive(),
                        .is_head = parser.get().method() == http::verb::head};
    if (!error && !refusal && !parser.is_done()) {
      if (expects_something(parser.get()) && !co_await write_text(connection, kContinue)) co_return std::nullopt;
      connection.expires_after(options_.timeout);
      co_await connection.read_all<true>(buffer, parser, error);
      if (!error) error = limit.check_trailers(parser.get());
    }
    if (error && is_end(error)) co_return std::nullopt;
    if (error) refusal = refused(http_refusal(error));
    if (!refusal) {
      request->body = std::move(parser.get().body());
      co_return Incoming{.request = *std::move(request), .how = how};
    }
    co_await write(connection, *refusal, {.version = 11, .is_head = how.is_head});
    co_await drain(connection);
    co_return std::nullopt;
  }

  // Refuses from the head alone. Lowers the parser's limit of the body.
  std::optional<ServerResponse> refusal_of_head(RequestParser& parser,
                                                const std::optional<ServerRequest>& request) const {
    if (!request) return refused(http_refusal(400, "bad_request", kMalformed));
    const IncomingHead& head = parser.get();
    if (expects_something(head) && !beast::iequals(head[http::field::expect], "100-continue"))
      return refused(http_refusal(417, "expectation", "The only Expect that is known is 100-continue."));
    if (parser.is_done()) return std::nullopt;
    try {
      std::optional<ServerResponse> refusal = options_.refuse_head ? options_.refuse_head(*request) : std::nullopt;
      if (refusal || !options_.most_body) return refusal;
      const std::uint64_t most = std::min(options_.max_body, options_.most_body(*request));
      parser.body_limit(most);  // of chunks; a length that is stated has been judged by now
      if (parser.content_length().value_or(0) > most) return refused(http_refusal(http::error::body_limit));
      return std::nullopt;
    } catch (const std::exception&) {
      return refused(http_refusal(500, "internal", kFailed));
    }
  }

  std::string client_of(const IncomingHead& head, const std::string& peer) const {
    const std::string stated = options_.behind_proxy ? forwarded_peer(head) : "";
    return stated.empty() ? peer : stated;
  }

  // Reads on for a while: closing with bytes unread would take the answer away from a client that still sends.
  asio::awaitable<void> drain(Connection& connection) {
    std::array<char, 16384> bytes;
    NetError error;
    if (!tls_) connection.socket().shutdown(tcp::socket::shutdown_send, error);
    connection.expires_after(kDrainTime);
    for (std::size_t total = 0; total < kMostDrained;) {
      const std::size_t got = co_await connection.read_some(asio::buffer(bytes), error);
      if (error) co_return;
      total += got;
    }
  }

  ServerResponse refused(ServerResponse response) const {
    if (options_.on_refusal) options_.on_refusal(response);
    return response;
  }

  ServerResponse handle(const ServerRequest& request) const {
    try {
      return handler_(request);
    } catch (const std::exception&) {
      return refused(http_refusal(500, "internal", kFailed));
    }
  }

  asio::awaitable<ServerResponse> respond(const ServerRequest& request) {
    if (options_.is_quick && options_.is_quick(request)) co_return handle(request);
    co_return co_await asio::co_spawn(
        handlers_, [&]() -> asio::awaitable<ServerResponse> { co_return handle(request); }, asio::use_awaitable);
  }

  // A reader may take its time for each piece, and for all of them as long as a slow line needs.
  asio::awaitable<bool> write(Connection& connection, const ServerResponse& response, Answering how) {
    using Clock = std::chrono::steady_clock;
    NetError error;
    if (response.delay.count() > 0) {
      asio::steady_timer pause(co_await asio::this_coro::executor, response.delay);
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
    std::string text = head_of(response, how.version, how.keep_alive, how.is_head);
    if (!response.pieces && !how.is_head) text += response.body;
    const auto bytes = static_cast<double>(response.pieces ? response.bytes : response.body.size());
    const Clock::time_point end =
        Clock::now() + options_.timeout + std::chrono::milliseconds(static_cast<long>(1e3 * bytes / kSlowestReader));
    for (std::string_view left = text; !left.empty();) {
      connection.expires_at(std::min(end, Clock::now() + options_.timeout));
      left.remove_prefix(co_await connection.write_some(left, error));
      if (error) co_return false;
    }
    if (!response.pieces || how.is_head) co_return true;
    for (std::uint64_t sent = 0; sent < response.bytes;) {
      std::string piece = response.pieces();
      if (piece.empty() || Clock::now() > end) co_return false;
      piece.resize(std::min<std::uint64_t>(piece.size(), response.bytes - sent));
      if (!co_await write_text(connection, piece)) co_return false;
      sent += piece.size();
    }
    co_return true;
  }

  asio::awaitable<bool> write_text(Connection& connection, const std::string& text) {
    NetError error;
    for (std::string_view left = text; !left.empty() && !error;) {
      connection.expires_after(options_.timeout);
      left.remove_prefix(co_await connection.write_some(left, error));
    }
    connection.expires_never();
    co_return !error;
  }

  // Until the client leaves. The body ends with the connection.
  asio::awaitable<void> write_stream(Connection& connection, const ServerResponse& response,
                                     const std::string& client) {
    if (!watchers_.add(client, options_.max_streams_each)) {
      co_await write(connection, refused(http_refusal(503, "too_many_streams", "Too many streams of one address.")),
                     {});
      co_return;
    }
    struct Counted {
      ~Counted() {
        --count;
        peers.remove(peer);
      }
      std::atomic<std::size_t>& count;
      PeerCounts& peers;
      const std::string& peer;
    };
    const std::size_t others = streams_++;
    const Counted counted{streams_, watchers_, client};
    if (others >= options_.max_streams) {
      co_await write(connection, refused(http_refusal(503, "too_many_streams", "Too many clients watch already.")), {});
      co_return;
    }
    std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
    for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
    if (!co_await write_text(connection, head + "\r\n: welcome\n\n")) co_return;
    auto last = std::chrono::steady_clock::now();
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
      std::string text = response.stream();
      const auto now = std::chrono::steady_clock::now();
      if (text.empty() && now - last >= options_.heartbeat) text = ": heartbeat\n\n";
      if (!text.empty()) {
        last = now;
        if (!co_await write_text(connection, text)) co_return;
      }
      timer.expires_after(kStreamPoll);
      NetError error;
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (error || has_left(connection.socket())) co_return;
    }
  }

  const HttpServerOptions options_;
  const ServerHandler handler_;
  std::optional<asio::ssl::context> tls_;
  std::atomic<std::size_t> connections_{0}, streams_{0};
  std::atomic<std::uint64_t> closed_connections_{0};
  PeerCounts peers_, watchers_;
  std::uint16_t port_ = 0;
  asio::io_context io_;         // its coroutines use all of the above
  asio::thread_pool handlers_;  // after io_, in which what it holds goes on
  tcp::acceptor acceptor_;
  std::vector<std::thread> threads_;
};

HttpServer::HttpServer(const HttpServerOptions& options, ServerHandler handler)
    : impl_(std::make_unique<Impl>(options, std::move(handler))) {}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return impl_->port(); }

std::size_t HttpServer::connections() const { return impl_->connections(); }

std::uint64_t HttpServer::closed_connections() const { return impl_->closed_connections(); }

}  // namespace moetune
