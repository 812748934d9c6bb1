// Signals that a kernel's mistakes raise while it runs: they lead back to where the run began.
//
// One at a time in a process; the handlers before it are in place again when it goes.
#pragma once

#include <csetjmp>
#include <csignal>
#include <string>
#include <vector>

namespace moetune::testing {

struct Fault {
  int signal = 0;
  const void* address = nullptr;  // of SIGSEGV and SIGBUS, if the machine says it
  bool is_write = false;          // if the machine says it
};

class FaultCatcher {
 public:
  // `may_catch` says whether a fault is the kernel's; others end the process as they would without this.
  // SIGVTALRM comes after `seconds` of CPU time.
  FaultCatcher(bool (*may_catch)(int signal), int seconds);
  ~FaultCatcher();
  FaultCatcher(const FaultCatcher&) = delete;
  FaultCatcher& operator=(const FaultCatcher&) = delete;

  // Where faults land: `if (sigsetjmp(catcher.landing(), 1) == 0) run(); else look at fault();`
  sigjmp_buf& landing();
  const Fault& fault() const;

 private:
  struct sigaction before_[6];
  stack_t stack_before_;
  std::vector<char> stack_;
};

}  // namespace moetune::testing
