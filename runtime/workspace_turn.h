// The turn of a thread to put a plan's launches on a stream, while others that share its workspace wait: what reads
// scratch follows what wrote it, and no other thread's launch comes between.
//
// One turn an address, in the order in which threads ask. A launch may wait in a full queue, so that nobody waits for
// another address's turn: the whole address tells them apart, and a lock that addresses share is held only to look.
// Nothing is allocated, and nothing is kept of an address that no thread holds or waits for. Throws nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace moetune {

class WorkspaceTurn {
 public:
  // Waits for the turn of `workspace`; returns at once for 0, which is no workspace.
  explicit WorkspaceTurn(std::uint64_t workspace);
  ~WorkspaceTurn();
  WorkspaceTurn(const WorkspaceTurn&) = delete;
  WorkspaceTurn& operator=(const WorkspaceTurn&) = delete;

 private:
  struct Line;
  static Line& line_of(std::uint64_t workspace);

  const std::uint64_t workspace_;
  WorkspaceTurn* next_ = nullptr;  // the next in its line, for any address
  std::atomic<int> has_come_{0};   // the turn, to one that waits
};

}  // namespace moetune
