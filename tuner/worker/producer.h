// Stands for the kernel in front in a server: a small kernel that writes the inputs which are fresh there, with the
// values that they hold.
//
// Lives in the worker; not thread-safe. Borrows the harness and the stream. Errors: cuda::CudaError.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/driver.h"
#include "tuner/worker/harness.h"

namespace moetune {

// Memory in one copy of the rotating buffers: whole runs of 16 bytes, of which the last may reach beyond the buffer.
struct FreshPart {
  cuda::Address address = 0;
  std::uint64_t words = 0;
};

class Producer {
 public:
  // The most bytes that are written in front of one launch: what was written longer ago has left the cache anyhow.
  static constexpr std::int64_t kMostBytes = std::int64_t{16} << 20;

  Producer(Harness& harness, const std::vector<std::vector<FreshPart>>& by_turn, const cuda::Stream& stream);

  void enqueue(std::int64_t turn);

 private:
  struct Turn {
    std::uint64_t offset = 0, parts = 0, words = 0;  // where its parts begin in the list
  };

  Harness& harness_;
  std::vector<Turn> turns_;
  cuda::Memory list_;
};

}  // namespace moetune
