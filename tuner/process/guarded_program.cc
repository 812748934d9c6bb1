#include "tuner/process/guarded_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <thread>
#include <utility>

#include "tuner/process/spawn.h"

namespace moetune {
namespace {

constexpr int kGuardSocket = 3;
constexpr std::size_t kLongestWords = 400;  // the last ones say why
constexpr int kInputPipe = 1 << 20;
constexpr std::size_t kReadAhead = std::size_t{1} << 16;
constexpr std::chrono::seconds kReapPatience{6};  // a little longer than the guard's own

struct PipeEnds {
  FileDescriptor reading, writing;
};

PipeEnds make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) cannot_start("pipe2", errno);
  FileDescriptor reading = above_child_descriptors(ends[0]);
  return {std::move(reading), above_child_descriptors(ends[1])};
}

// Writes to a pipe whose reader may be gone: SIGPIPE is then taken from this thread again.
ssize_t write_to_pipe(int fd, std::string_view bytes) {
  sigset_t broken_pipe, before, pending;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipe, &before);
  sigpending(&pending);
  const ssize_t put = write(fd, bytes.data(), bytes.size());
  const int error = errno;
  const timespec at_once = {};
  if (put < 0 && error == EPIPE && sigismember(&pending, SIGPIPE) == 0) sigtimedwait(&broken_pipe, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return put;
}

}  // namespace

GuardedProgram::GuardedProgram(const std::string& command) {
  PipeEnds input = make_pipe(), output = make_pipe(), errors = make_pipe();
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) cannot_start("socketpair", errno);
  life_ = above_child_descriptors(sockets[0]);
  const FileDescriptor theirs = above_child_descriptors(sockets[1]);
  guard_ = spawn_child("", {"moetune", "guard", "--fd", std::to_string(kGuardSocket), command},
                       {input.reading.get(), output.writing.get(), errors.writing.get(), theirs.get()});
  input_ = std::move(input.writing);
  output_ = std::move(output.reading);
  errors_ = ErrorTail(std::move(errors.reading));
  fcntl(input_.get(), F_SETFL, O_NONBLOCK);
  fcntl(input_.get(), F_SETPIPE_SZ,
        kInputPipe);  // if the system allows it: then a long line goes in one piece
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

GuardedProgram::~GuardedProgram() {
  input_ = FileDescriptor();
  if (why_over_.empty()) reap(kGrace);
  stop();
}

void GuardedProgram::stop() {
  if (why_over_.empty()) why_over_ = "was stopped";
  pid_t shell = 0;
  const bool is_known = recv(life_.get(), &shell, sizeof shell, MSG_DONTWAIT) == sizeof shell;
  life_ = FileDescriptor();
  if (!reap(kReapPatience)) {
    kill(guard_, SIGKILL);
    reap(kReapPatience);
  }
  if (is_known && WIFSIGNALED(wait_status_)) kill(-shell, SIGKILL);  // the guard could not
}

// Whether the guard has ended, and with it the program.
bool GuardedProgram::reap(std::chrono::milliseconds patience) {
  if (guard_ < 0) return true;
  const Clock::time_point limit = Clock::now() + patience;
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, std::chrono::milliseconds(20))) {
    if (waitpid(guard_, &wait_status_, WNOHANG) != 0) break;
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(pause);
  }
  guard_ = -1;
  return true;
}

void GuardedProgram::end(const std::string& why) {
  why_over_ = why;
  stop();
}

// An output that ends before its program leaves the program mute.
void GuardedProgram::end_of_output() {
  std::string why = "closed its output";
  if (reap(std::chrono::seconds(1)) && WIFEXITED(wait_status_))
    why = "exited with status " + std::to_string(WEXITSTATUS(wait_status_));
  errors_.drain();
  std::string words = errors_.words();
  if (words.size() > kLongestWords) words.replace(0, words.size() - kLongestWords, "...");
  end(words.empty() ? why : why + "; it said: " + words);
}

void GuardedProgram::send(std::string_view line) {
  if (!why_over_.empty()) return;
  if (unsent_.size() - sent_ + line.size() > kMostUnread) {
    end("does not read what it is sent");
    return;
  }
  unsent_.erase(0, std::exchange(sent_, 0));
  unsent_.append(line) += '\n';
  exchange(std::chrono::milliseconds(0));
}

std::optional<std::string> GuardedProgram::next_line(Clock::time_point until) {
  while (true) {
    if (std::optional<std::string> line = buffered_line()) return line;
    if (!why_over_.empty()) return std::nullopt;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    exchange(std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(0), std::chrono::hours(1)));
    if (left.count() > 0) continue;
    return buffered_line();
  }
}

std::optional<std::string> GuardedProgram::buffered_line() {
  const std::size_t at = unread_.find('\n', scanned_);
  scanned_ = std::min(at, unread_.size());
  if (scanned_ - taken_ > kLongestLine) {
    if (why_over_.empty()) end("wrote a line of more than " + std::to_string(kLongestLine) + " bytes");
    return std::nullopt;
  }
  if (at == std::string::npos) return std::nullopt;
  std::string line = unread_.substr(taken_, at - taken_);
  taken_ = scanned_ = at + 1;
  return line;
}

// Writes, reads, and waits for the first that can be. Lines that nobody has taken yet are enough at some point.
void GuardedProgram::exchange(std::chrono::milliseconds wait) {
  if (!why_over_.empty()) return;
  const bool has_room = unread_.size() - taken_ <= kLongestLine + 1;
  std::array<pollfd, 4> files = {pollfd{has_room ? output_.get() : -1, POLLIN, 0}, pollfd{errors_.fd(), POLLIN, 0},
                                 pollfd{sent_ < unsent_.size() ? input_.get() : -1, POLLOUT, 0},
                                 pollfd{life_.get(), POLLRDHUP, 0}};
  if (poll(files.data(), files.size(), static_cast<int>(wait.count())) <= 0) return;
  if (files[2].revents != 0) write_some();
  if (files[1].revents != 0 && !errors_.drain()) errors_.close();
  if (files[0].revents != 0) {
    read_some();
  } else if (has_room && files[3].revents != 0) {
    end_of_output();  // something holds the output open that the guard could not end
  }
}

void GuardedProgram::write_some() {
  while (sent_ < unsent_.size()) {
    const ssize_t put = write_to_pipe(input_.get(), std::string_view(unsent_).substr(sent_));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) return;
    if (put < 0) {  // it reads no more; what it wrote still counts
      sent_ = unsent_.size();
      input_ = FileDescriptor();
      return;
    }
    sent_ += static_cast<std::size_t>(put);
  }
}

void GuardedProgram::read_some() {
  unread_.erase(0, taken_);
  scanned_ -= std::exchange(taken_, 0);
  const std::size_t before = unread_.size();
  unread_.resize(before + kReadAhead);
  ssize_t got = 0;
  do {
    got = read(output_.get(), unread_.data() + before, kReadAhead);
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  unread_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0 || (got < 0 && error != EAGAIN)) end_of_output();
}

}  // namespace moetune
