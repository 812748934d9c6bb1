// The tensors of a problem, described as data: the worker allocates and fills them on the device, and the
// tests compute the same bytes on the host.
//
// Plain data and pure functions; thread-safe. A description that contradicts itself is its kernel's mistake:
// check_buffers throws std::logic_error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/output_check.h"

namespace moetune {

// A run of elements.
struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// How an input gets its values. All but `integers` are counter-based: element i depends on i, the seed and
// the stream alone, so that host and device agree bit for bit and any part can be computed by itself.
struct Fill {
  enum class Kind {
    zeros,
    normal,       // mean 0
    uniform,      // around 0
    integers,     // the list below
    constant,     // `scale` everywhere
    zipf,         // integers below `values`: k with a probability proportional to (k + 1)^-scale
    permutation,  // the integers 0 .. elements - 1, each once
    columns,      // normal, rounded to the type, plus shifts[i % shifts.size()], rounded again
    arrays,       // contents[seed % contents.size()], in every stream
    steps,        // odd multiples of `scale` from -15 to 15: sums of their products are exact in fp32
  };
  Kind kind = Kind::zeros;
  float scale = 1;                     // standard deviation, half-width, constant, step or Zipf's exponent
  std::vector<std::int32_t> integers;  // every element, whatever the buffer's type
  std::vector<Range> poison;           // what a right kernel never reads: NaN, or the largest integer
  std::int64_t values = 0;
  std::vector<float> shifts;  // of `columns`: for rows of a matrix whose columns differ
  // Elements as they lie in memory, of `arrays`.
  std::vector<std::shared_ptr<const std::vector<std::uint8_t>>> contents;
};

enum class Role {
  input,
  output,
  in_out,  // read and written: filled as an input, judged as an output
};

struct Buffer {
  std::string name;
  DType dtype = DType::f32;
  std::int64_t elements = 0;
  Role role = Role::input;
  // Streamed inputs: each replay of a measurement reads another copy, so that L2 is cold.
  bool rotates = false;
  // An input that the kernel in front has just written in a server (Timing::chained).
  bool fresh = false;
  // An input of integers with a row for each of so many sequences or, as `offsets`, prefix sums over them from 0 on.
  // Measuring takes turns between kSequenceOrders orders of the sequences, the same in all such buffers: a server's
  // come in any order, blocks start in it, and which of them share an SM changes a time by up to a quarter.
  std::int64_t sequences = 0;
  bool offsets = false;
  // The values of inputs and in_out buffers; outputs are poisoned before every run. An in_out buffer is filled again
  // before every run that is judged. During measuring each launch finds the results of the launches before it.
  Fill fill;
  OutputCheck check;  // of outputs and in_out buffers

  std::int64_t bytes() const { return elements * dtype_bytes(dtype); }
  bool is_read() const { return role != Role::output; }
  bool is_written() const { return role != Role::input; }
};

// Throws std::logic_error with the broken rule: lists as long as their buffer, poison inside it, values that
// the type can hold, whole rows of sequences; every written buffer with a check that suits its type; segments that
// exist.
void check_buffers(const std::vector<Buffer>& buffers);

// The type in which the exact reference writes such an output: f32 for a floating-point type of up to 32 bits, else its
// own.
inline DType exact_dtype(DType type) { return is_integer(type) || type == DType::f64 ? type : DType::f32; }

inline constexpr std::int64_t kSequenceOrders = 16;

// The integers of a buffer with `sequences`, which are in another order for every `order` below kSequenceOrders; order
// 0 is the one that they have. Up to five sequences take the places about evenly.
std::vector<std::int32_t> integers_in_order(const Buffer& buffer, std::int64_t order);

// Zipf: thresholds[k] is 2^64 times the probability of at most k, as the host computes it for itself and the device.
std::vector<std::uint64_t> zipf_thresholds(std::int64_t values, double exponent);

// The stream number of copy `copy` (rotation) of the buffer at position `position` in Kernel::buffers.
inline std::uint64_t fill_stream(std::size_t position, std::size_t copy) { return position * 4096 + copy; }

}  // namespace moetune
