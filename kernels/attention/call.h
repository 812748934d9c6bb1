// Shared description of the attention kernels' KV tensors: keys and values lie in blocks (a page, or contiguous
// tokens), by strides. Holds the rules for strides, sizes and the scale of any call. Plain values and pure functions;
// thread-safe. A broken rule throws BadInput, which names kernel and field.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/dtype.h"
#include "kernels/plan.h"

namespace moetune {

// Elements between neighbours in K or V.
struct KvStrides {
  std::int64_t block = 0;
  std::int64_t head = 0;
  std::int64_t token = 0;
};

// The chunks of `head_dim` elements that tensor copies bring: 128 bytes each, or all 64 of a row, as a swizzle takes
// them. If the last is shorter, a tensor map has rows undivided, a copy brings one chunk, and zeros lie past the row.
struct RowChunks {
  RowChunks(DType dtype, std::int64_t head_dim);

  std::int64_t elements, count;
  bool whole;              // the last is as long as the others
  std::int64_t innermost;  // elements of a tensor map's first dimension
  std::int64_t of_a_map;   // chunks of its chunk dimension
  TensorMap::Swizzle swizzle;
};

// K and V of one launch, with all that their addresses follow from.
struct KvTensors {
  DType dtype = DType::bf16;
  std::int64_t head_dim = 0, heads = 0;
  std::int64_t blocks = 0;  // pages in the pool, or pieces of contiguous memory
  std::int64_t tokens = 0;  // of a block
  KvStrides k, v;
  std::int64_t v_offset = 0;  // elements from K's start to V's in one buffer; 0: V has a buffer of its own

  const KvStrides& strides(bool values) const { return values ? v : k; }
  // Elements from the first of a tensor to behind its last.
  std::int64_t elements(const KvStrides& strides) const;
  // The address of the first key or value.
  Pointer pointer(bool values) const;
  // [block][head][chunk][token][128 bytes], of which one copy brings `box_tokens` and `box_chunks`: tokens then
  // lie in shared memory as the 128-byte swizzle wants them. RowChunks says what rows of other lengths are.
  TensorMap map(bool values, std::int64_t box_tokens, std::int64_t box_chunks) const;
  // [block][head][token][row], of which one copy brings `box_tokens`: rows then lie side by side.
  TensorMap row_map(bool values, std::int64_t box_tokens) const;
};

struct StridedDimension {
  std::int64_t stride, count;
};

class CallRules {
 public:
  explicit constexpr CallRules(const char* kernel) : kernel_(kernel) {}

  [[noreturn]] void refuse(const std::string& rule) const;
  // `tensor` and `field` make the name of the stride together.
  void check_stride(const char* tensor, const char* field, std::int64_t stride, std::int64_t element_bytes) const;
  void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) const;
  // Rows of `row` elements lie apart. Sorts `dimensions`.
  void check_disjoint(const char* tensor, std::span<StridedDimension> dimensions, std::int64_t row) const;
  // That the tensor lies within what a GPU addresses, and sums of its offsets within 64 bits.
  void check_span(const char* tensor, std::span<const StridedDimension> dimensions, std::int64_t element_bytes) const;
  // Strides, v_offset and spans; not the number of blocks.
  void check_kv(const KvTensors& kv) const;
  // Too small or too large, it would make scores that are no numbers.
  void check_scale(double scale) const;

 private:
  const char* kernel_;
};

// The dimensions `head_dim` and `softcap` of both kernels.
inline constexpr std::int64_t kHeadDims[] = {64, 80, 96, 112, 128, 192, 256};
inline constexpr const char* kHeadDimDoc = "elements of a head: 64, 80, 96, 112, 128, 192 or 256";
inline constexpr std::int64_t kMostSoftcap = 100;  // e4m3 holds a search's queries up to it
inline constexpr const char* kSoftcapDoc =
    "bound of scaled scores, which become softcap * tanh(score / softcap); 0 for none";

// Tokens that a sequence, and blocks that a pool may have room for.
inline constexpr std::int64_t kMaximumCapacity = std::int64_t{1} << 30;
inline constexpr std::int64_t kMaximumBlocks = (std::int64_t{1} << 31) - 1;

// The type's name in templates/common/convert.cuh.
std::string element_type(DType type);
// Defines SOFTCAP if there is one: other cubins are named as before there was any.
void define_softcap(CompileUnit& unit, std::int64_t softcap);
// Softmax runs on powers of two: 2^(score * scale * log2(e)).
float scale_log2(double scale);
// The buffer's address; a null pointer if it is not `present`.
Argument pointer_argument(const char* buffer, bool present = true);

}  // namespace moetune
