#include "http/connection.h"

#include <openssl/ssl.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>

namespace moetune {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

struct Connection::Streams {
  explicit Streams(const asio::any_io_executor& executor) : tcp(executor) {}
  explicit Streams(Tcp::socket socket) : tcp(std::move(socket)) {}

  beast::tcp_stream tcp;
  std::optional<asio::ssl::stream<beast::tcp_stream&>> tls;
};

Connection::Connection(const asio::any_io_executor& executor) : streams_(std::make_unique<Streams>(executor)) {}

Connection::Connection(Tcp::socket socket) : streams_(std::make_unique<Streams>(std::move(socket))) {}

Connection::~Connection() = default;

Connection::Awaitable<void> Connection::connect(const std::string& host, const std::string& port, Error& error) {
  Tcp::resolver resolver(streams_->tcp.get_executor());
  const auto addresses = co_await resolver.async_resolve(host, port, asio::redirect_error(asio::use_awaitable, error));
  if (!error) co_await streams_->tcp.async_connect(addresses, asio::redirect_error(asio::use_awaitable, error));
}

Connection::Awaitable<void> Connection::start_tls(TlsContext& context, const std::string& host, Error& error) {
  auto& tls = streams_->tls.emplace(streams_->tcp, context);
  tls.set_verify_callback(asio::ssl::host_name_verification(host));
  ::SSL_set_tlsext_host_name(tls.native_handle(), host.c_str());
  co_await tls.async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, error));
}

Connection::Awaitable<void> Connection::accept_tls(TlsContext& context, Error& error) {
  co_await streams_->tls.emplace(streams_->tcp, context)
      .async_handshake(asio::ssl::stream_base::server, asio::redirect_error(asio::use_awaitable, error));
}

Connection::Awaitable<void> Connection::shutdown(Error& error) {
  if (streams_->tls) {
    co_await streams_->tls->async_shutdown(asio::redirect_error(asio::use_awaitable, error));
  } else {
    socket().shutdown(Tcp::socket::shutdown_send, error);
  }
}

void Connection::expires_after(std::chrono::milliseconds time) { streams_->tcp.expires_after(time); }

void Connection::expires_at(std::chrono::steady_clock::time_point time) { streams_->tcp.expires_at(time); }

void Connection::expires_never() { streams_->tcp.expires_never(); }

Connection::Awaitable<std::size_t> Connection::read_some(asio::mutable_buffer bytes, Error& error) {
  if (streams_->tls)
    co_return co_await streams_->tls->async_read_some(bytes, asio::redirect_error(asio::use_awaitable, error));
  co_return co_await streams_->tcp.async_read_some(bytes, asio::redirect_error(asio::use_awaitable, error));
}

Connection::Awaitable<std::size_t> Connection::write_some(std::string_view bytes, Error& error) {
  const asio::const_buffer from(bytes.data(), bytes.size());
  if (streams_->tls)
    co_return co_await streams_->tls->async_write_some(from, asio::redirect_error(asio::use_awaitable, error));
  co_return co_await streams_->tcp.async_write_some(from, asio::redirect_error(asio::use_awaitable, error));
}

template <bool is_request>
Connection::Awaitable<std::size_t> Connection::read_some(Buffer& buffer, Parser<is_request>& parser, Error& error) {
  constexpr std::size_t kMostAtOnce = 64 << 10;
  std::size_t taken = 0;
  for (bool must_read = buffer.size() == 0;; must_read = true) {
    if (must_read) {
      const std::size_t size = beast::read_size(buffer, kMostAtOnce);
      if (size == 0) {
        error = http::error::buffer_overflow;
        co_return taken;
      }
      buffer.commit(co_await read_some(buffer.prepare(size), error));
      if (error == asio::error::eof) {
        error = {};
        if (parser.got_some()) {
          parser.put_eof(error);
        } else {
          error = http::error::end_of_stream;
        }
        co_return taken;
      }
      if (error) co_return taken;
    }
    const std::size_t used = parser.put(buffer.data(), error);
    taken += used;
    buffer.consume(used);
    if (error != http::error::need_more) co_return taken;
  }
}

template <bool is_request>
Connection::Awaitable<std::size_t> Connection::read_head(Buffer& buffer, Parser<is_request>& parser, Error& error) {
  std::size_t taken = 0;
  for (error = {}; !error && !parser.is_header_done();) taken += co_await read_some(buffer, parser, error);
  co_return taken;
}

template <bool is_request>
Connection::Awaitable<std::size_t> Connection::read_all(Buffer& buffer, Parser<is_request>& parser, Error& error) {
  std::size_t taken = 0;
  for (error = {}; !error && !parser.is_done();) taken += co_await read_some(buffer, parser, error);
  co_return taken;
}

Connection::Tcp::socket& Connection::socket() { return streams_->tcp.socket(); }

template Connection::Awaitable<std::size_t> Connection::read_head(Buffer&, Parser<true>&, Error&);
template Connection::Awaitable<std::size_t> Connection::read_head(Buffer&, Parser<false>&, Error&);
template Connection::Awaitable<std::size_t> Connection::read_all(Buffer&, Parser<true>&, Error&);
template Connection::Awaitable<std::size_t> Connection::read_some(Buffer&, Parser<false>&, Error&);

}  // namespace moetune
