// A connection that sends what it is given, whether that is HTTP or not.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/within_a_while.h"

namespace moetune::testing {

class RawConnection {
 public:
  // `from`: an address of the loopback to come from. A small buffer makes a slow reader slow for the sender too.
  explicit RawConnection(std::uint16_t port, const char* from = "127.0.0.1", int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in mine = address(from, 0), theirs = address("127.0.0.1", port);
    REQUIRE(::bind(socket_, reinterpret_cast<sockaddr*>(&mine), sizeof mine) == 0);
    REQUIRE(::connect(socket_, reinterpret_cast<sockaddr*>(&theirs), sizeof theirs) == 0);
  }
  RawConnection(const RawConnection&) = delete;
  ~RawConnection() { ::close(socket_); }

  // Whether all of it went out: not to who has closed the connection.
  bool send(const std::string& text) const {
    return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  // What has come, at most `most` bytes; "" at the end, and after kPatience of nothing.
  std::string piece(std::size_t most = 65536) const {
    std::string bytes(most, '\0');
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  }
  std::string rest() const {
    std::string all;
    for (std::string some = piece(); !some.empty(); some = piece()) all += some;
    return all;
  }
  // One answer with a length, of a connection that stays open.
  std::string answer() const {
    constexpr std::string_view kLength = "Content-Length: ";
    std::string all;
    for (std::size_t wanted = std::string::npos; all.size() < wanted;) {
      const std::string some = piece();
      if (some.empty()) break;
      all += some;
      const std::size_t end = all.find("\r\n\r\n"), length = all.find(kLength);
      if (end != std::string::npos && length < end) wanted = end + 4 + std::stoul(all.substr(length + kLength.size()));
    }
    return all;
  }

 private:
  static sockaddr_in address(const char* host, std::uint16_t port) {
    sockaddr_in made{};
    made.sin_family = AF_INET;
    made.sin_port = htons(port);
    ::inet_pton(AF_INET, host, &made.sin_addr);
    return made;
  }
  int socket_;
};

}  // namespace moetune::testing
