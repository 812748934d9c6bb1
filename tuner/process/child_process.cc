#include "tuner/process/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/error.h"

extern char** environ;

namespace moetune {
namespace {

constexpr int kChildSocket = 3;
constexpr std::size_t kStderrTail = 2000;
constexpr std::chrono::milliseconds kStopPatience{300};

[[noreturn]] void cannot_start(const std::string& call, int error) {
  throw BrokenEnvironment("cannot start a child process: " + call + ": " + std::strerror(error));
}

// Moves a descriptor above those that the child's own will be put on.
FileDescriptor above_child_descriptors(int fd) {
  FileDescriptor low(fd);
  FileDescriptor high(fcntl(fd, F_DUPFD_CLOEXEC, 16));
  if (high.get() < 0) cannot_start("fcntl", errno);
  return high;
}

struct SpawnAttributes {
  SpawnAttributes() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnAttributes() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// Its own process group, so that Ctrl-C on the terminal reaches the parent alone; default signals; no
// descriptor of the parent but the socket and the pipe for what it prints.
pid_t spawn(const std::string& verb, const std::string& executable, int socket, int output) {
  SpawnAttributes spawn;
  posix_spawn_file_actions_addopen(&spawn.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&spawn.actions, output, 1);
  posix_spawn_file_actions_adddup2(&spawn.actions, output, 2);
  posix_spawn_file_actions_adddup2(&spawn.actions, socket, kChildSocket);
  posix_spawn_file_actions_addclosefrom_np(&spawn.actions, kChildSocket + 1);

  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  posix_spawnattr_setpgroup(&spawn.attributes, 0);
  posix_spawnattr_setflags(&spawn.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);

  std::string name = "moetune", role = verb, option = "--fd", fd = std::to_string(kChildSocket);
  std::string parent_option = "--parent", parent = std::to_string(getpid());
  std::array<char*, 7> arguments = {name.data(),          role.data(),   option.data(), fd.data(),
                                    parent_option.data(), parent.data(), nullptr};
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, executable.c_str(), &spawn.actions, &spawn.attributes, arguments.data(), environ);
  if (error != 0) cannot_start("posix_spawn of " + executable, error);
  return pid;
}

std::string one_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', '|');
  return text;
}

}  // namespace

ChildProcess::ChildProcess(Role role) : role_(std::move(role)) {
  std::array<int, 2> sockets{}, pipe_ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    cannot_start("socketpair", errno);
  FileDescriptor ours = above_child_descriptors(sockets[0]), theirs = above_child_descriptors(sockets[1]);
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) cannot_start("pipe2", errno);
  stderr_ = above_child_descriptors(pipe_ends[0]);
  FileDescriptor output = above_child_descriptors(pipe_ends[1]);
  fcntl(stderr_.get(), F_SETFL, O_NONBLOCK);

  channel_ = std::make_unique<Channel>(std::move(ours));
  channel_->set_side({stderr_.get(), [this] { drain_stderr(); }});
  const std::string& executable = role_.executable;
  pid_ = spawn(role_.verb, executable.empty() ? "/proc/self/exe" : executable, theirs.get(), output.get());
}

ChildProcess::~ChildProcess() { kill_and_reap(); }

void ChildProcess::drain_stderr() {
  std::array<char, 4096> chunk;
  while (true) {
    const ssize_t got = read(stderr_.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) channel_->drop_side();
    if (got <= 0) return;
    stderr_tail_.append(chunk.data(), static_cast<std::size_t>(got));
    if (stderr_tail_.size() > kStderrTail) stderr_tail_.erase(0, stderr_tail_.size() - kStderrTail);
  }
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
  for (auto pause = std::chrono::milliseconds(1); alive();
       pause = std::min(2 * pause, std::chrono::milliseconds(50))) {
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
  const std::string words = one_line(stderr_tail_);
  return words.empty() ? text : text + "; it said: " + words;
}

ChildProcess::Reply ChildProcess::request(const Message& message, std::chrono::milliseconds limit,
                                          std::stop_token stop, std::function<void()> slow) {
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
