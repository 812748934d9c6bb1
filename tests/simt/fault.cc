#include "tests/simt/fault.h"

#include <pthread.h>
#include <sys/time.h>
#include <ucontext.h>

#include <iterator>

namespace moetune::testing {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE, SIGVTALRM};

struct {
  sigjmp_buf landing;
  Fault fault;
  bool (*may_catch)(int signal);
  pthread_t thread;
} catcher;

bool wrote(const void* context) {
#if defined(__x86_64__)
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  (void)context;
  return false;
#endif
}

void handle(int signal, siginfo_t* info, void* context) {
  const bool is_mine = ::pthread_equal(::pthread_self(), catcher.thread) != 0;
  if (signal == SIGVTALRM && !is_mine) {
    ::pthread_kill(catcher.thread, signal);
    return;
  }
  if (!is_mine || !catcher.may_catch(signal)) {
    if (signal == SIGVTALRM) return;  // between two threads' turns; it comes again
    ::signal(signal, SIG_DFL);        // a mistake of ours: the instruction faults again
    return;
  }
  catcher.fault = {signal, info->si_addr, wrote(context)};
  ::siglongjmp(catcher.landing, 1);
}

void set_timer(int seconds) {
  // Again and again, because the first may come between two turns.
  const itimerval timer{.it_interval = {0, seconds > 0 ? 1000 : 0}, .it_value = {seconds, 0}};
  ::setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

}  // namespace

FaultCatcher::FaultCatcher(bool (*may_catch)(int signal), int seconds) : stack_(std::size_t{64} << 10) {
  catcher.may_catch = may_catch;
  catcher.thread = ::pthread_self();
  // The kernel's own stack may be what is used up.
  const stack_t stack{.ss_sp = stack_.data(), .ss_flags = 0, .ss_size = stack_.size()};
  ::sigaltstack(&stack, &stack_before_);
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
  set_timer(seconds);
}

FaultCatcher::~FaultCatcher() {
  set_timer(0);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  ::sigaltstack(&stack_before_, nullptr);
}

sigjmp_buf& FaultCatcher::landing() { return catcher.landing; }

const Fault& FaultCatcher::fault() const { return catcher.fault; }

}  // namespace moetune::testing
