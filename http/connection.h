// One end of a TCP connection, plain or over TLS, as coroutines that one thread at a time runs. Asio's and Beast's
// templates meet a stream in connection.cc alone: there they cost most of what they take to compile.
//
// Each operation sets `error`: to beast::error::timeout if it has not ended when expires_after or expires_at said. Of a
// parser, buffer or context that is handed over the caller stays the owner, and keeps it until the operation ends.
#pragma once

// clang-format off
#include <utility>  // in front of what needs it and does not say so
#include <boost/asio/awaitable.hpp>
// clang-format on

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace moetune {

class Connection {
 public:
  using Error = boost::system::error_code;
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using Tcp = boost::asio::ip::tcp;
  using TlsContext = boost::asio::ssl::context;
  using Buffer = boost::beast::flat_buffer;
  template <bool is_request>
  using Parser = boost::beast::http::basic_parser<is_request>;

  explicit Connection(const boost::asio::any_io_executor& executor);  // a client's, to be connected
  explicit Connection(Tcp::socket socket);                            // one that has been accepted
  ~Connection();
  Connection(const Connection&) = delete;

  Awaitable<void> connect(const std::string& host, const std::string& port, Error& error);
  // TLS from here on. A client's names `host`, and is shown a certificate of that name.
  Awaitable<void> start_tls(TlsContext& context, const std::string& host, Error& error);
  Awaitable<void> accept_tls(TlsContext& context, Error& error);
  // Tells the other end that nothing more comes.
  Awaitable<void> shutdown(Error& error);

  void expires_after(std::chrono::milliseconds time);
  void expires_at(std::chrono::steady_clock::time_point time);
  void expires_never();

  Awaitable<std::size_t> read_some(boost::asio::mutable_buffer bytes, Error& error);
  Awaitable<std::size_t> write_some(std::string_view bytes, Error& error);
  // Reads until `parser` has the head, until it is done, or until it has taken something; returns what it took.
  // `buffer` bounds what is read at once, and keeps what came behind.
  template <bool is_request>
  Awaitable<std::size_t> read_head(Buffer& buffer, Parser<is_request>& parser, Error& error);
  template <bool is_request>
  Awaitable<std::size_t> read_all(Buffer& buffer, Parser<is_request>& parser, Error& error);
  template <bool is_request>
  Awaitable<std::size_t> read_some(Buffer& buffer, Parser<is_request>& parser, Error& error);

  Tcp::socket& socket();

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

}  // namespace moetune
