#include "cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace moetune {
namespace {

std::atomic<int> received{0};
std::atomic<int> wake_fd{-1};
static_assert(std::atomic<int>::is_always_lock_free, "the handler must not take a lock");

extern "C" void on_signal(int signal) {
  const int saved = errno;
  if (received.exchange(signal) != 0) _exit(128 + signal);
  const char byte = 1;
  // A full pipe holds a byte that wakes the listener just as well.
  [[maybe_unused]] const ssize_t written = write(wake_fd.load(), &byte, 1);
  errno = saved;
}

}  // namespace

Interrupt::Interrupt() {
  if (pipe2(pipe_, O_CLOEXEC) != 0) {
    throw BrokenEnvironment(std::string("pipe2: ") + std::strerror(errno));
  }
  wake_fd = pipe_[1];
  listener_ = std::thread([this] {
    char byte = 0;
    while (read(pipe_[0], &byte, 1) < 0 && errno == EINTR) {
    }
    if (byte != 0) source_.request_stop();
  });
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &old_int_);
  sigaction(SIGTERM, &action, &old_term_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGTERM, &old_term_, nullptr);
  wake_fd = -1;
  close(pipe_[1]);  // the listener reads the end of the pipe
  listener_.join();
  close(pipe_[0]);
}

int Interrupt::exit_code() { return 128 + received.load(); }

}  // namespace moetune
