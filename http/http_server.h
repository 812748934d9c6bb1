// An HTTP/1.1 server, over TLS if it has a certificate: coroutines on a few threads, so that a connection costs memory
// and no thread. Headers, bodies, connections and the time of each step are bounded.
//
// The handler is called from threads of its own, several at once, and guards its own state; what it throws becomes a
// 500. What HttpServerOptions::is_quick says is answered between the connections instead, so that it waits for no other
// request. HEAD is answered as GET without the body. A server listens from its construction until it is destroyed.
// Errors: BadInput for an address or a certificate that is none, BrokenEnvironment if the address cannot be listened
// on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moetune {

struct ServerRequest {
  std::string method;                          // "GET"
  std::string path;                            // percent-decoded save %2F, without the query: "/v1/jobs/7"
  std::map<std::string, std::string> query;    // percent-decoded
  std::map<std::string, std::string> headers;  // of the head; names in lower case; of repeated ones the first
  std::string body;
  std::string peer;  // the address without its port

  std::string header(const std::string& lower_case_name) const;  // "" if there is none
};

struct ServerResponse {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  // beside Content-Length and Connection
  std::string body;
  // If set, an endless body instead: asked again and again for what is new ("" for nothing).
  std::function<std::string()> stream;
  // If set, a body of `bytes` in pieces instead. A piece of "" before its end cuts the connection.
  std::function<std::string()> pieces;
  std::uint64_t bytes = 0;
  std::chrono::milliseconds delay{0};  // before it is sent; it holds its connection, and no thread
};

using ServerHandler = std::function<ServerResponse(const ServerRequest&)>;

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // a numeric address
  std::uint16_t port = 0;          // 0: any that is free
  std::string tls_cert, tls_key;   // PEM files; both or none
  std::size_t threads = 2, handler_threads = 4;
  std::size_t max_connections = 512, max_streams = 256;
  std::size_t max_connections_each = 0, max_streams_each = 0;  // of one address; 0: as many as there may be
  bool behind_proxy = false;  // a client's address is the one that the proxy adds to X-Forwarded-For
  std::uint64_t max_body = std::uint64_t{1} << 20;
  std::uint32_t max_header = 16 << 10;          // of a head with the extensions of its chunks and its trailers
  std::chrono::milliseconds timeout{15'000};    // of reading a request, and of writing a piece of an answer
  std::chrono::milliseconds heartbeat{15'000};  // of a stream in which nothing happens
  std::function<bool(const ServerRequest&)> is_quick;
  // Called for a request that has a body, before any of it is read. Returns the answer if the head is wrong already,
  // and how long the body may be, if that is less than max_body. Called between the connections, as is_quick is.
  std::function<std::optional<ServerResponse>(const ServerRequest&)> refuse_head;
  std::function<std::uint64_t(const ServerRequest&)> most_body;
  std::function<void(ServerResponse&)> on_refusal;  // completes the answer to what the handler does not see
};

class HttpServer {
 public:
  HttpServer(const HttpServerOptions& options, ServerHandler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  std::uint16_t port() const;
  std::size_t connections() const;           // that are open
  std::uint64_t closed_connections() const;  // that were too many, so far

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// A plain text as one segment of a path or query: percent-encoded.
std::string percent_encoded(const std::string& text);

}  // namespace moetune
