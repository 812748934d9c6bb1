#include "tests/sync/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace moetune::testing {
namespace {

constexpr const char* kEndless = "endless";
constexpr const char* kStalled = "stalled";
constexpr std::size_t kMostEndless = std::size_t{1} << 30;

bool send_all(int connection, const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t some = ::send(connection, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (some <= 0) return false;
    sent += static_cast<std::size_t>(some);
  }
  return true;
}

// "" if the other side closes before it has said all.
std::string receive_request(int connection, std::size_t& head) {
  std::string text;
  char piece[65536];
  for (std::size_t wanted = std::string::npos; text.size() < wanted;) {
    const ssize_t got = ::recv(connection, piece, sizeof piece, 0);
    if (got <= 0) return "";
    text.append(piece, static_cast<std::size_t>(got));
    if (wanted != std::string::npos) continue;
    head = text.find("\r\n\r\n");
    if (head == std::string::npos) continue;
    head += 4;
    const std::size_t length = text.find("Content-Length: ");
    wanted = head + (length < head ? std::stoul(text.substr(length + 16)) : 0);
  }
  return text;
}

}  // namespace

std::string endless(const std::string& begin, const std::string& piece) {
  return kEndless + std::string(1, '\0') + begin + std::string(1, '\0') + piece;
}
std::string endless() {
  return endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                 "10000\r\n" + std::string(0x10000, ' ') + "\r\n");
}
std::string stalled() { return kStalled; }

std::string http_answer(int status, const std::string& body, const std::string& headers) {
  return "HTTP/1.1 " + std::to_string(status) + " Answer\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
}

ScriptedServer::ScriptedServer(Answer answer) : answer_(std::move(answer)) {
  listening_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (listening_ < 0 || ::bind(listening_, name, size) != 0 || ::listen(listening_, 16) != 0 ||
      ::getsockname(listening_, name, &size) != 0)
    throw std::runtime_error("the scripted server cannot listen");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

ScriptedServer::~ScriptedServer() {
  ::shutdown(listening_, SHUT_RDWR);  // wakes accept
  thread_.join();
  ::close(listening_);
}

void ScriptedServer::serve() {
  for (int connection; (connection = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    answer_one(connection);
    ::close(connection);
  }
}

void ScriptedServer::answer_one(int connection) {
  Request request;
  std::size_t head = 0;
  const std::string text = receive_request(connection, head);
  if (text.empty()) return;
  request.head = text.substr(0, head);
  request.body = text.substr(head);
  request.method = text.substr(0, text.find(' '));
  request.path = text.substr(request.method.size() + 1);
  request.path.resize(request.path.find(' '));
  std::string answer;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    answer = answer_(request);
  }
  if (answer == kStalled) {
    send_all(connection, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    receive_request(connection, head);  // its end
    return;
  }
  if (!answer.starts_with(kEndless)) {
    send_all(connection, answer);
    return;
  }
  const std::size_t begin = answer.find('\0') + 1, end = answer.find('\0', begin);
  const std::string piece = answer.substr(end + 1);
  std::size_t left = send_all(connection, answer.substr(begin, end - begin)) ? kMostEndless / piece.size() : 0;
  while (left > 0 && send_all(connection, piece)) --left;
}

std::vector<ScriptedServer::Request> ScriptedServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

}  // namespace moetune::testing
