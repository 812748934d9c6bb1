#include "cli/resource_limits.h"

#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

namespace moetune {
namespace {

constexpr int kBrokenEnvironment = 3;

// In a thread, or while another exception is reported. Allocates nothing.
[[noreturn]] void end_process() {
  try {
    if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kSentence = "moetune: out of memory; see 'ulimit -v' for this shell's limit\n";
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
    ::_exit(kBrokenEnvironment);
  } catch (...) {
  }
  std::abort();
}

// A stack that cannot grow ends the process by a signal, so it grows before `ulimit -v` is reached.
[[gnu::noinline]] void touch_stack() {
  char stack[std::size_t{512} << 10];
  std::memset(stack, 0, sizeof stack);
  asm volatile("" : : "r"(stack) : "memory");  // or the compiler would leave it out
}

}  // namespace

void prepare_for_resource_limits() {
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_terminate(end_process);
  touch_stack();
}

}  // namespace moetune
