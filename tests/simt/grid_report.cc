// What Grid says of threads that do not come through.
#include <cinttypes>
#include <cstdio>
#include <map>

#include "tests/simt/grid.h"

namespace moetune::testing {
namespace {

constexpr std::size_t kBlocksListed = 4, kRangesListed = 12;

// "0-30, 32" of ascending numbers.
std::string ranges(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  std::size_t listed = 0;
  for (std::size_t i = 0, end; i < numbers.size(); i = end) {
    if (listed++ == kRangesListed) return text + " and " + std::to_string(numbers.size() - i) + " more";
    for (end = i + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
    if (end > i + 1) text += "-" + std::to_string(numbers[end - 1]);
  }
  return text;
}

std::string hexadecimal(std::uint32_t word) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08" PRIx32, word);
  return text;
}

const char* cause_of(const Fault& fault) {
  if (fault.signal == SIGFPE) return "divides an integer by zero";
  if (fault.signal == SIGVTALRM) return "has run for too long without waiting in a call that lets others run";
  return "an access that is not aligned, or past the end of a local array";
}

}  // namespace

std::string format_index(const simt::Index& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," + std::to_string(index.z) + ")";
}

std::string Grid::name_of(const GridThread& thread) const {
  return "thread " + format_index(thread.view.thread) + " of block " + format_index(thread.view.block);
}

std::string Grid::waits_for(const GridThread& thread) const {
  switch (thread.state) {
    case ThreadState::ready:
      return "can run";
    case ThreadState::ended:
      return "ended";
    case ThreadState::collective:
      return "wait in " + std::string(thread.what) + " with mask " + hexadecimal(thread.mask);
    case ThreadState::barrier: {
      const GridBarrier& barrier = thread.block->barriers[static_cast<std::size_t>(thread.barrier)];
      return "wait in " + std::string(thread.what) + " (barrier " + std::to_string(thread.barrier) + ", " +
             std::to_string(barrier.arrived) + " have arrived)";
    }
    case ThreadState::mbarrier: {
      const GridMbarrier& barrier = thread.block->mbarriers.at(thread.mbarrier);
      return "wait for parity " + std::to_string(thread.parity) + " of the mbarrier at byte " +
             std::to_string(thread.mbarrier) + " of shared memory, in phase " + std::to_string(barrier.phase) +
             ", which lacks " + std::to_string(barrier.pending) + " of " + std::to_string(barrier.expected) +
             " arrivals and " + std::to_string(barrier.bytes) + " bytes";
    }
    case ThreadState::predecessor:
      return "wait for the launch in front to end";
    case ThreadState::polling:
      return "wait for " + std::to_string(thread.wanted) + (thread.reaches ? " or more" : "") + " at " +
             explain_address(thread.address) + ", where " + std::to_string(*thread.address) + " is";
  }
  return "";
}

// A line for all threads of a block that wait for the same.
std::string Grid::waiting_threads() const {
  std::string text;
  std::size_t listed = 0;
  for (const auto& block : blocks_) {
    if (block->alive == 0 || listed++ >= kBlocksListed) continue;
    std::map<std::string, std::vector<std::uint32_t>> threads;
    for (std::uint32_t i = 0; i < block->threads.size(); ++i) threads[waits_for(block->threads[i])].push_back(i);
    for (const auto& [what, numbers] : threads)
      text += "\n  block " + format_index(block->threads[0].view.block) + ", threads " + ranges(numbers) + ": " + what;
  }
  if (listed > kBlocksListed) text += "\n  and " + std::to_string(listed - kBlocksListed) + " blocks more";
  if (started_ < block_count_)
    text += "\n  " + std::to_string(block_count_ - started_) + " blocks have not started: only " +
            std::to_string(blocks_.size()) + " are alive at once";
  return text;
}

std::string Grid::explain_address(const void* address) const {
  const std::string buffer = launch_.describe(address);
  if (!buffer.empty()) return buffer;
  for (const auto& block : blocks_) {
    if (block->shared->is_near(address))
      return "byte " + std::to_string(static_cast<const std::uint8_t*>(address) - block->shared->data()) +
             " of the dynamic shared memory of block " + format_index(block->threads[0].view.block) + ", which has " +
             std::to_string(launch_.shape.dynamic_shared);
  }
  char text[32];
  std::snprintf(text, sizeof text, "address %p", address);
  return text;
}

std::string Grid::explain(const Fault& fault) const {
  const std::string who = name_of(*running_) + ": ";
  if (fault.signal != SIGSEGV && fault.signal != SIGBUS) return who + cause_of(fault);
  if (running_->stack.guards(fault.address))
    return who + "needs more stack than " + std::to_string(options_.stack_bytes) + " bytes";
  if (fault.address == nullptr) return who + "uses a null pointer, or an address that is not aligned";
  const bool too_early = !predecessor_ended_ && !launch_.describe(fault.address).empty();
  return who + (fault.is_write ? "writes to " : "reads from ") + explain_address(fault.address) +
         (too_early ? ", before it has waited for the launch in front" : "");
}

}  // namespace moetune::testing
