#include "tests/simt/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

namespace moetune::testing {
namespace {

// Of more than a page, because a frame's first access may be deep below.
std::size_t stack_guard_bytes() {
  static const auto bytes = 4 * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

bool FiberStack::guards(const void* address) const {
  const auto* byte = static_cast<const std::byte*>(address);
  return byte < low && byte >= low - stack_guard_bytes();
}

FiberStacks::~FiberStacks() {
  for (std::byte* mapping : mappings_) ::munmap(mapping, bytes_ + stack_guard_bytes());
}

FiberStacks& FiberStacks::of(std::size_t bytes) {
  static std::map<std::size_t, FiberStacks> pools;
  return pools.try_emplace(bytes, bytes).first->second;
}

FiberStack FiberStacks::at(std::size_t position) {
  while (mappings_.size() <= position) {
    void* mapping = ::mmap(nullptr, bytes_ + stack_guard_bytes(), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    ::mprotect(mapping, stack_guard_bytes(), PROT_NONE);
    mappings_.push_back(static_cast<std::byte*>(mapping));
  }
  return {mappings_[position] + stack_guard_bytes(), bytes_};
}

#if defined(__x86_64__) && !defined(MOETUNE_SIMT_UCONTEXT)

// The registers that a call preserves go onto the old stack and come from the new one.
extern "C" void moetune_simt_switch(void** from, void* to);
asm(R"(
  .text
  .globl moetune_simt_switch
  .hidden moetune_simt_switch
  .type moetune_simt_switch, @function
moetune_simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size moetune_simt_switch, . - moetune_simt_switch
)");

void prepare_fiber(Fiber& fiber, const FiberStack& stack, void (*entry)()) {
  // Six registers, the address that `ret` takes, and, where a function finds its caller, nothing: then the stack is
  // aligned as after a call.
  auto** top = reinterpret_cast<void**>(stack.low + stack.bytes);
  *--top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.stack_pointer = top;
}

void switch_fiber(Fiber& from, Fiber& to) { moetune_simt_switch(&from.stack_pointer, to.stack_pointer); }

#else

void prepare_fiber(Fiber& fiber, const FiberStack& stack, void (*entry)()) {
  ::getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack.low;
  fiber.context.uc_stack.ss_size = stack.bytes;
  fiber.context.uc_link = nullptr;
  ::makecontext(&fiber.context, entry, 0);
}

void switch_fiber(Fiber& from, Fiber& to) { ::swapcontext(&from.context, &to.context); }

#endif

}  // namespace moetune::testing
