#include "tuner/process/protocol.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <thread>

namespace moetune {
namespace {

struct Pair {
  Pair() {
    std::array<int, 2> fds{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0);
    raw = fds[1];
    left = std::make_unique<Channel>(FileDescriptor(fds[0]));
    right = std::make_unique<Channel>(FileDescriptor(fds[1]));
  }
  std::unique_ptr<Channel> left, right;
  int raw = -1;  // right's socket
};

Channel::Deadline in(std::chrono::milliseconds time) { return Channel::Clock::now() + time; }

}  // namespace

TEST_CASE("a message arrives whole, larger than any socket buffer, empty blobs included") {
  Pair pair;
  Message sent{"{\"op\":\"open\"}", {Bytes(20'000'000, 7), {}, Bytes(3, 9)}};
  sent.blobs[0][12'345'678] = 8;
  auto sending = std::async(std::launch::async, [&] { return pair.left->send(sent, in(std::chrono::seconds(30))); });
  Message received;
  CHECK(pair.right->receive(received, in(std::chrono::seconds(30))) == Channel::Status::done);
  CHECK(sending.get() == Channel::Status::done);
  CHECK(received.header == sent.header);
  CHECK(received.blobs == sent.blobs);
}

TEST_CASE("a deadline ends a wait for silence, for half a message and for a reader that does not read") {
  Pair pair;
  Message message;
  CHECK(pair.left->receive(message, in(std::chrono::milliseconds(20))) == Channel::Status::late);
  REQUIRE(write(pair.raw, "NUTM\4", 5) == 5);
  CHECK(pair.left->receive(message, in(std::chrono::milliseconds(20))) == Channel::Status::late);
  CHECK(pair.left->send({"", {Bytes(50'000'000)}}, in(std::chrono::milliseconds(20))) == Channel::Status::late);
}

TEST_CASE("a peer that goes away closes the channel, in the middle of a message too") {
  Pair pair;
  REQUIRE(write(pair.raw, "NUTM\4", 5) == 5);
  pair.right.reset();
  Message message;
  CHECK(pair.left->receive(message, in(std::chrono::seconds(5))) == Channel::Status::closed);
  CHECK(pair.left->send({"{}", {}}, in(std::chrono::seconds(5))) == Channel::Status::closed);
}

TEST_CASE("what is no message is refused before memory is asked for") {
  const struct {
    std::array<std::uint32_t, 3> head;
    std::uint64_t blob;
  } cases[] = {{{0x12345678, 2, 0}, 0},
               {{0x4D54554E, 0xFFFFFFFF, 0}, 0},
               {{0x4D54554E, 2, 0xFFFFFFFF}, 0},
               {{0x4D54554E, 2, 1}, std::numeric_limits<std::uint64_t>::max()}};
  for (const auto& bad : cases) {
    Pair pair;
    REQUIRE(write(pair.raw, bad.head.data(), 12) == 12);
    REQUIRE(write(pair.raw, &bad.blob, 8) == 8);
    Message message;
    CHECK_THROWS_AS(pair.left->receive(message, in(std::chrono::seconds(1))), ProtocolError);
  }
}

TEST_CASE("a child's other output is drained while a reply is awaited") {
  Pair pair;
  std::array<int, 2> pipe_ends{};
  REQUIRE(pipe(pipe_ends.data()) == 0);
  std::string seen;
  pair.left->set_side({pipe_ends[0], [&] {
                         char text[16];
                         const ssize_t got = read(pipe_ends[0], text, sizeof text);
                         seen.append(text, static_cast<std::size_t>(got));
                       }});
  REQUIRE(write(pipe_ends[1], "last words", 10) == 10);
  Message message;
  CHECK(pair.left->receive(message, in(std::chrono::milliseconds(50))) == Channel::Status::late);
  CHECK(seen == "last words");
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

}  // namespace moetune
