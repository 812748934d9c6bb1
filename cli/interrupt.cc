#include "cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

namespace moetune {

Interrupt::Interrupt() {
  sigemptyset(&watched_);
  sigemptyset(&ignored_);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaddset(&watched_, signal);
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    // A blocked signal is queued even where it is ignored: the listener must know which to drop.
    if (action.sa_handler == SIG_IGN) sigaddset(&ignored_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &watched_, &old_mask_);
  listener_ = std::thread([this] { listen(); });
}

Interrupt::~Interrupt() {
  closing_ = true;
  pthread_kill(listener_.native_handle(), SIGTERM);  // wakes it from sigwait
  listener_.join();
  pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

void Interrupt::listen() {
  while (true) {
    int signal = 0;
    if (sigwait(&watched_, &signal) != 0) continue;
    if (closing_) return;
    if (sigismember(&ignored_, signal)) continue;
    if (received_.exchange(signal) != 0) _exit(128 + signal);
    source_.request_stop();
  }
}

}  // namespace moetune
