// The host side of templates/common/harness.cu: what measuring and validating ask of the device besides the
// candidate.
//
// Lives in the worker; not thread-safe. Everything is enqueued on the stream given at construction; calls
// that return a value wait for it. Errors: cuda::CudaError.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "launch/driver.h"
#include "tuner/worker/canary.h"
#include "tuner/worker/validator.h"

namespace moetune {

// Copies of one buffer in one allocation, with guard bands before, between and after them. The band after a
// copy starts right behind its last byte.
struct ArenaLayout {
  std::int64_t guard = 0;   // bytes before the first copy, and the least after each
  std::int64_t stride = 0;  // from copy to copy
  std::int64_t bytes = 0;   // data of one copy
  std::int64_t copies = 0;

  static ArenaLayout of(std::int64_t bytes, std::int64_t copies);
  std::int64_t offset(std::int64_t copy) const { return guard + copy * stride; }
  std::int64_t total() const { return offset(copies); }
};

// Fills guard bands and outputs: NaN in every floating-point type, -1 as an index.
constexpr std::uint8_t kPoisonByte = 0xFF;

// Poisons integer outputs in a second run: a right output may hold one of the patterns, never both.
constexpr std::uint8_t kOtherPoisonByte = 0x5A;

class Harness {
 public:
  static const char* const kSource;  // the template to compile

  Harness(std::span<const std::uint8_t> cubin, const DeviceLimits& limits, const cuda::Stream& stream);

  void fill(cuda::Address address, const Buffer& buffer, std::uint64_t seed, std::uint64_t fill_stream);
  void poison(cuda::Address address, DType type, const std::vector<Range>& ranges);

  // The elements of a tensor as f32.
  void widen(cuda::Address from, DType type, cuda::Address to, std::int64_t elements);

  // x, of a floating-point type, against the f32 tensor y.
  ErrorFigures compare(cuda::Address x, DType type, cuda::Address y, std::int64_t elements);

  // x against y, both of an integer type. `earlier`, if not 0, is x as an earlier run left it, which began
  // with kPoisonByte everywhere, as the last one began with kOtherPoisonByte.
  IntegerFigures compare_integers(cuda::Address x, cuda::Address y, DType type, std::int64_t elements,
                                  cuda::Address earlier);

  // The same as sets. `ends` are those of segment_ends (host_compare.h); `offsets` the i32 list that they
  // come from, or 0 if all segments are as long.
  struct Segments {
    cuda::Address offsets = 0;
    std::vector<std::int64_t> ends;
  };
  SegmentFigures compare_segments(cuda::Address x, cuda::Address y, DType type, const Segments& segments);

  // The lowest offset in the arena whose guard byte is no longer `guard`.
  std::optional<std::int64_t> first_damage(cuda::Address arena, const ArenaLayout& layout, std::uint8_t guard);

  // `bytes` is a multiple of 16.
  std::uint64_t checksum(cuda::Address address, std::int64_t bytes);

  // Holds the stream until release(), or until `patience_ns` have passed: what is enqueued between the two
  // runs back to back. gave_up(), once the stream is idle, says that the patience was too short and it did
  // not.
  void hold(std::uint64_t patience_ns);
  void release();
  bool gave_up() const;

  // Reads the SMs' clocks into a place below kTicks, when the stream gets there. Places past that stay unknown.
  static constexpr int kTicks = 256;
  void tick(int place);
  // The SM clock between two ticks that are over, in MHz; 0 if it cannot be told.
  double clock_mhz(int begin, int end) const;

  // A kernel that does nothing.
  void nothing();

  // Overwrites the shared memory of every SM: nothing that a kernel left there survives.
  void wipe_shared();

  // Writes `count` pairs (address, words of 16 bytes) of the list at `parts`, `words` of them in all, with the values
  // that they hold.
  void produce(cuda::Address parts, std::uint64_t count, std::uint64_t words);

  // Works for `duration_ns` on every SM and waits for that: one reading a block. An interruption longer than
  // `gap_ns` is a gap.
  std::vector<CanaryPartial> canary(std::uint64_t duration_ns, std::uint64_t gap_ns);

 private:
  // Shared by hold() and its kernel, in memory that both see.
  struct Signal {
    std::uint64_t released, gave_up;  // the last turn that was
  };
  Signal& signal() const { return *static_cast<Signal*>(signal_.get()); }
  struct Tick;

  void run(cuda::Function function, const char* entry, std::uint32_t blocks, std::uint32_t threads,
           std::vector<std::uint64_t> parameters, std::uint32_t dynamic_shared = 0);
  void fill_list(cuda::Address address, DType type, const std::vector<std::int32_t>& list);
  void shift_columns(cuda::Address address, const Buffer& buffer);
  void fill_zipf(cuda::Address address, const Buffer& buffer, std::uint64_t seed, std::uint64_t fill_stream);
  template <typename Partial>
  std::vector<Partial> read_partials();
  std::uint64_t read_result();

  const cuda::Stream& stream_;
  std::uint32_t sms_, blocks_, shared_bytes_;
  cuda::Module module_;
  cuda::Function fill_, fill_zipf_, fill_list_, shift_columns_, poison_, widen_, compare_, compare_integers_,
      compare_segments_, check_guards_, checksum_, hold_, produce_, canary_, tick_, wipe_shared_;
  cuda::Memory partials_, result_;
  cuda::HostMemory signal_, ticks_;
  std::uint64_t turn_ = 0;  // of hold()
};

}  // namespace moetune
