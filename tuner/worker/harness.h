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

// What fills guard bands and outputs: NaN in every floating-point type, -1 as an index.
constexpr std::uint8_t kPoisonByte = 0xFF;

class Harness {
 public:
  static const char* const kSource;  // the template to compile

  Harness(std::span<const std::uint8_t> cubin, int sm_count, const cuda::Stream& stream);

  void fill(cuda::Address address, const Buffer& buffer, std::uint64_t seed, std::uint64_t fill_stream);
  void poison(cuda::Address address, DType type, const std::vector<Range>& ranges);

  // x, of `type`, against the f32 tensor y.
  ErrorFigures compare(cuda::Address x, DType type, cuda::Address y, std::int64_t elements);

  // The lowest offset in the arena whose guard byte was overwritten.
  std::optional<std::int64_t> first_damage(cuda::Address arena, const ArenaLayout& layout);

  // `bytes` is a multiple of 16.
  std::uint64_t checksum(cuda::Address address, std::int64_t bytes);

  void delay(std::uint64_t cycles);

 private:
  void run(cuda::Function function, const char* entry, std::uint32_t blocks, std::uint32_t threads,
           std::vector<std::uint64_t> parameters);
  std::uint64_t read_result();

  const cuda::Stream& stream_;
  std::uint32_t blocks_;
  cuda::Module module_;
  cuda::Function fill_, poison_, compare_, check_guards_, checksum_, delay_;
  cuda::Memory partials_, result_;
};

}  // namespace moetune
