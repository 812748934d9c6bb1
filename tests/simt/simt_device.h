// Runs the launches of a plan on the CPU, so that tests without a GPU check what a template computes.
//
// A unit's template is compiled by the host's C++ compiler against tests/simt/device, which stands in for
// CUDA's built-ins and for the headers of templates/common that hold PTX. Every CUDA thread is a fiber; the
// blocks of a grid are alive together and take turns, so that grid barriers and look-back come through.
// Buffers end at a page that cannot be touched. Reported as SimtError, with the thread and the block:
// accesses outside of buffers and shared memory, deadlocks, collectives of different kinds or whose lanes have
// ended, __trap, arguments that do not fit the kernel's parameters.
//
// Bulk and tensor copies land as late as they can, and the results of wgmma appear when they are waited for: until then
// NaN is there, so that a missing wait shows. Reported are also mbarriers that count wrong or that nobody initialized,
// copies that never land in time, and what wgmma still reads or writes when it is changed.
//
// Not supported: `extern __shared__` (dynamic_shared() of templates/common/shared_memory.cuh instead), mbarriers in
// static shared memory, memory order weaker than sequential (so that missing fences do not show), speed. Launches run
// one after the other. A programmatic dependent one comes as far as it can before the one in front counts as ended.
// Reported are blocks that end without waiting for it, and accesses to scratch and buffers before that; inputs may be
// read if the one in front had waited for its own before it let this one begin. Of settled inputs some bytes are NaN
// till then, and all may be read.
//
// Stricter than CUDA: a collective's mask names no lane that has ended or was never there. What a lane takes from one
// outside of the mask is garbage. What lies before a buffer in its first page, or less than 16 bytes past its end, can
// be read unnoticed; a write there is found when the launch has ended.
//
// Not thread-safe: one run at a time in a process. While it runs it takes SIGSEGV, SIGBUS, SIGILL,
// SIGTRAP, SIGFPE and SIGVTALRM.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/plan.h"

namespace moetune::testing {

// What a kernel did wrong, or what does not compile. One message, which may have several lines.
class SimtError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct SimtOptions {
  // 0: threads and blocks take turns in their order. Else this shuffles them, and threads also give way at
  // atomics and global_sync calls, differently for every seed: a race shows under some of them. `seed % 4` of three
  // bulk copies land at once.
  std::uint64_t seed = 0;
  // Blocks alive at once, as on a small GPU. 0: all that have at most 16384 threads together.
  std::uint32_t resident_blocks = 0;
  std::size_t stack_bytes = std::size_t{64} << 10;  // of a thread
  // A run that takes more CPU time than this hangs in a loop that waits by nothing the emulator sees.
  int patience_seconds = 60;
};

// The bytes behind a buffer's name: copied in before a run, and out after it if they are not const. The kernel
// must not write const ones.
class SimtBuffer {
 public:
  SimtBuffer(std::span<std::uint8_t> bytes) : bytes_(bytes), written_(true) {}
  SimtBuffer(std::vector<std::uint8_t>& bytes) : SimtBuffer(std::span(bytes)) {}
  SimtBuffer(std::span<const std::uint8_t> bytes) : bytes_(const_cast<std::uint8_t*>(bytes.data()), bytes.size()) {}
  SimtBuffer(const std::vector<std::uint8_t>& bytes) : SimtBuffer(std::span(bytes)) {}

  // The launch in front writes these bytes alone, at its end.
  void settle(std::vector<Range> late) { late_ = std::move(late); }

  std::span<std::uint8_t> bytes() const { return bytes_; }
  bool is_written() const { return written_; }
  const std::optional<std::vector<Range>>& late() const { return late_; }  // of a settled one

 private:
  std::span<std::uint8_t> bytes_;
  bool written_ = false;
  std::optional<std::vector<Range>> late_;
};

using SimtBuffers = std::map<std::string, SimtBuffer>;

// One unit with its scratch memory.
class SimtDevice {
 public:
  // The source's path is below the repository's root. Compiles at the first run.
  explicit SimtDevice(CompileUnit unit, SimtOptions options = {});
  ~SimtDevice();
  SimtDevice(const SimtDevice&) = delete;
  SimtDevice& operator=(const SimtDevice&) = delete;

  // Runs memsets and launches in order. Zeroed scratch that is left at anything else is an error: kernels share it.
  // Other scratch keeps what the last run left, as between launches of a tuned kernel. Throws SimtError; scratch then
  // holds what the failed run left, and written buffers are not copied back.
  void run(const LaunchPlan& plan, const SimtBuffers& buffers);

  void set_seed(std::uint64_t seed);
  // The next run starts with new scratch: zeroed, or every byte 0xFF, as the plan says.
  void forget_scratch();
  // What scratch `name` holds now. Throws std::out_of_range if no plan has had it.
  std::vector<std::uint8_t> scratch(const std::string& name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moetune::testing
