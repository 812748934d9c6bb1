// Stacks, and switching between them without a system call: x86-64 by hand, elsewhere by ucontext.
//
// Not thread-safe. A fiber that is left for good (its run was given up) needs no end: its stack is used again.
#pragma once

#include <cstddef>
#include <vector>

#if !defined(__x86_64__) || defined(MOETUNE_SIMT_UCONTEXT)
#include <ucontext.h>
#endif

namespace moetune::testing {

// Below it are pages that cannot be touched.
struct FiberStack {
  std::byte* low = nullptr;  // the first usable byte
  std::size_t bytes = 0;

  bool guards(const void* address) const;  // whether it is in the pages below
};

// Stacks of one size, which every launch of the process uses again: mapping thousands takes longer than most launches.
// Not for several threads at once.
class FiberStacks {
 public:
  explicit FiberStacks(std::size_t bytes) : bytes_(bytes) {}
  ~FiberStacks();
  static FiberStacks& of(std::size_t bytes);
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  // The stack at `position`; made at its first use. Throws std::bad_alloc.
  FiberStack at(std::size_t position);

 private:
  std::size_t bytes_;
  std::vector<std::byte*> mappings_;
};

// What runs: the place where it stopped.
struct Fiber {
#if defined(__x86_64__) && !defined(MOETUNE_SIMT_UCONTEXT)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

// Makes `fiber` start with `entry`, which must not return, at the next switch to it.
void prepare_fiber(Fiber& fiber, const FiberStack& stack, void (*entry)());

// Stops here, goes on there; returns when somebody switches back to `from`.
void switch_fiber(Fiber& from, Fiber& to);

}  // namespace moetune::testing
