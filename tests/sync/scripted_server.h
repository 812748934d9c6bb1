// A server that answers as a test says, to the byte: a thread that takes a connection after the other on the loopback.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace moetune::testing {

class ScriptedServer {
 public:
  struct Request {
    std::string method, path, head, body;  // head: all lines before the body
    bool has(const std::string& line) const { return head.find(line) != std::string::npos; }
  };
  // What is sent before the connection closes; `endless()` and `stalled()` are other ways to answer.
  using Answer = std::function<std::string(const Request&)>;

  explicit ScriptedServer(Answer answer);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<Request> requests() const;

 private:
  void serve();
  void answer_one(int connection);

  Answer answer_;
  int listening_ = -1, port_ = 0;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  std::thread thread_;
};

// "HTTP/1.1 200 OK" with a length.
std::string http_answer(int status, const std::string& body, const std::string& headers = "");
// A body that does not end: its connection is fed until the other side closes it.
std::string endless();
// The same of what follows a head: `piece` again and again, at most 1 GiB of them.
std::string endless(const std::string& begin, const std::string& piece);
// A body that does not come, until the other side closes the connection.
std::string stalled();

}  // namespace moetune::testing
