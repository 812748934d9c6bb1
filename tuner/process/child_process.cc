#include "tuner/process/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "tuner/process/spawn.h"

namespace moetune {
namespace {

constexpr int kChildSocket = 3;
constexpr std::chrono::milliseconds kStopPatience{300};

}  // namespace

ChildProcess::ChildProcess(Role role) : role_(std::move(role)) {
  std::array<int, 2> sockets{}, pipe_ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) cannot_start("socketpair", errno);
  FileDescriptor ours = above_child_descriptors(sockets[0]), theirs = above_child_descriptors(sockets[1]);
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) cannot_start("pipe2", errno);
  stderr_ = ErrorTail(above_child_descriptors(pipe_ends[0]));
  FileDescriptor output = above_child_descriptors(pipe_ends[1]);

  channel_ = std::make_unique<Channel>(std::move(ours));
  channel_->set_side({stderr_.fd(), [this] { drain_stderr(); }});
  pid_ =
      spawn_child(role_.executable,
                  {"moetune", role_.verb, "--fd", std::to_string(kChildSocket), "--parent", std::to_string(getpid())},
                  {-1, output.get(), output.get(), theirs.get()});
}

ChildProcess::~ChildProcess() { kill_and_reap(); }

void ChildProcess::drain_stderr() {
  if (!stderr_.drain()) channel_->drop_side();
}

bool ChildProcess::alive() {
  if (pid_ < 0) return false;
  if (waitpid(pid_, &wait_status_, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void ChildProcess::kill_and_reap(std::chrono::milliseconds patience) {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  const auto limit = std::chrono::steady_clock::now() + patience;
  for (auto pause = std::chrono::milliseconds(1); alive(); pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
    // Held in the kernel by the GPU driver. Its zombie is reaped by init when we end.
    if (std::chrono::steady_clock::now() > limit) break;
    std::this_thread::sleep_for(pause);
  }
  pid_ = -1;
}

std::string ChildProcess::describe_end() const {
  std::string text;
  if (WIFSIGNALED(wait_status_)) {
    const int signal = WTERMSIG(wait_status_);
    text = role_.name + " died of signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  } else {
    text = role_.name + " exited with status " + std::to_string(WEXITSTATUS(wait_status_));
  }
  const std::string words = stderr_.words();
  return words.empty() ? text : text + "; it said: " + words;
}

ChildProcess::Reply ChildProcess::request(const Message& message, std::chrono::milliseconds limit, std::stop_token stop,
                                          std::function<void()> slow) {
  FileDescriptor wake(stop.stop_possible() ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1);
  if (stop.stop_possible() && wake.get() < 0) cannot_start("eventfd", errno);
  const std::stop_callback ring(stop, [&] { eventfd_write(wake.get(), 1); });
  channel_->set_wake(wake.get());
  const Channel::Deadline deadline = Channel::Clock::now() + limit;
  if (slow) channel_->set_notice(Channel::Clock::now() + kSlow, std::move(slow));
  Reply reply;
  Channel::Status status = channel_->send(message, deadline);
  if (status == Channel::Status::done) status = channel_->receive(reply.message, deadline);
  channel_->set_wake(-1);
  channel_->set_notice(std::nullopt, {});
  if (status == Channel::Status::done) return reply;
  if (status == Channel::Status::woken) {
    reply.status = Reply::Status::stopped;
    kill_and_reap(kStopPatience);
    return reply;
  }

  reply.status = status == Channel::Status::late ? Reply::Status::late : Reply::Status::died;
  if (status == Channel::Status::closed) {
    // The socket closes a moment before the process can be reaped, and a core dump may take longer.
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (alive() && std::chrono::steady_clock::now() < patience)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill_and_reap();
  drain_stderr();
  if (reply.status == Reply::Status::died) {
    reply.killed = WIFSIGNALED(wait_status_);
    reply.cause = describe_end();
  }
  return reply;
}

}  // namespace moetune
