#include "tuner/worker/protocol.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/buffer.h"
#include "tuner/worker/worker_messages.h"
#include "tuner/worker/worker_session.h"

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
  auto sending =
      std::async(std::launch::async, [&] { return pair.left->send(sent, in(std::chrono::seconds(30))); });
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
  CHECK(pair.left->send({"", {Bytes(50'000'000)}}, in(std::chrono::milliseconds(20))) ==
        Channel::Status::late);
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

TEST_CASE("results and policies cross unchanged, infinities included") {
  TrialResult result;
  result.outcome = Outcome::wrong_result;
  result.message = "off by \"1\"";
  result.measurement = {12.5, 12, 13, {12, 12.5, 13}, 1980, 2600, 55, true};
  result.max_error = std::numeric_limits<double>::infinity();
  result.dissimilarity = 0.25;
  result.validate_s = 0.5;
  const auto same =
      nlohmann::json::parse(nlohmann::json(RunReply{result, true, false}).dump()).get<RunReply>();
  CHECK(same.damaged);
  CHECK_FALSE(same.context_lost);
  CHECK(same.result.outcome == result.outcome);
  CHECK(same.result.message == result.message);
  CHECK(same.result.measurement.samples_us == result.measurement.samples_us);
  CHECK(same.result.measurement.high_us == 13);
  CHECK(same.result.measurement.sm_clock_mhz == 1980);
  CHECK(same.result.measurement.throttled);
  CHECK(same.result.max_error == result.max_error);
  CHECK(same.result.dissimilarity == 0.25);

  MeasurePolicy policy;
  policy.max_samples = 11;
  const auto back = nlohmann::json::parse(nlohmann::json(policy).dump()).get<MeasurePolicy>();
  CHECK(back.drop_above_us == std::numeric_limits<double>::infinity());
  CHECK(back.max_samples == 11);
}

TEST_CASE("the largest page table that a problem may have fits a message") {
  constexpr std::int64_t kEntries = std::int64_t{64} << 20;
  // The table, and where every unused page of a ragged batch is poisoned by itself, in keys and in values.
  const std::int64_t table = kEntries * 4,
                     poison = 2 * (kEntries / 16) * static_cast<std::int64_t>(sizeof(Range));
  CHECK(static_cast<std::uint64_t>(table + poison) < Channel::kMaxTotal / 2);
}

TEST_CASE("the worker answers nonsense with an error and serves on") {
  WorkerSession session;
  for (const char* header :
       {"", "{", "[]", "{}", R"({"op":"sing"})", R"({"op":"run"})", R"({"op":"open"})", R"({"op":7})"}) {
    CAPTURE(header);
    const nlohmann::json reply = nlohmann::json::parse(session.handle({header, {}}).header);
    CHECK(reply.at("error").at("kind") == "request");
    CHECK_FALSE(reply.at("error").at("message").get<std::string>().empty());
  }
}

}  // namespace moetune
