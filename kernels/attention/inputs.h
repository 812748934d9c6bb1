// Shared test inputs of the attention kernels: buffers of queries, keys and values, page tables that are shuffled and
// surrounded by garbage, and NaN wherever a right kernel reads nothing. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention/call.h"
#include "kernels/buffer.h"
#include "kernels/shuffle.h"

namespace moetune {

// The page-table entry outside of a sequence's visible tokens: an id that no allocation has.
inline constexpr std::int32_t kGarbagePage = 0x7fffffff;

// Scores q.k / sqrt(head_dim) then have this standard deviation: softmax is neither flat nor one-hot.
inline constexpr float kQueryScale = 1.5f;
// Learned sinks are about as large as the logarithm of a short sequence's denominator, so that they matter.
inline constexpr float kSinkScale = 3;

// Values in e4m3 lie inside its normal range, and scales bring them near 1; scales differ from head to head, and
// between keys and values.
inline constexpr float kNarrowScale = 0.5f;
// Either of these for queries, or more: with a softcap, scores deviate by it, so that the best ones meet at the bound.
// Smaller, most of what it does would be less than is allowed; the order of scores it does not change.
float query_scale(float usual, std::int64_t softcap);

// The pages that ranges of tokens touch.
std::int64_t pages_touched(const std::vector<Range>& visible, std::int64_t page);

// A page table, and the tokens of the pool that some query sees, in order: token `t` of page `p` is number
// p * page + t, and no range leaves its page. (A range's problems have millions of pages, and sorting them took most of
// the time that it needs to be planned.)
struct PagePool {
  std::vector<std::int32_t> table;
  std::vector<Range> used;
};

// `visible` are the tokens of each sequence that its queries see. Throws BadInput if `blocks` are too few.
PagePool fill_pages(const char* kernel, const std::vector<Range>& visible, std::int64_t page, std::int64_t blocks,
                    std::int64_t table_stride, std::mt19937_64& random);

// Runs of elements that lie together, in any order.
class Runs {
 public:
  void add(std::int64_t begin, std::int64_t count);
  // The rest of `elements`, in ascending order with neighbours joined.
  std::vector<Range> complement(std::int64_t elements);

 private:
  std::vector<Range> runs_;
};

Buffer normal_buffer(std::string name, DType type, std::int64_t elements, float scale);
Buffer integer_buffer(std::string name, std::vector<std::int32_t> values);
// A row for each of so many sequences, and prefix sums over them: measuring puts them into several orders (Buffer).
Buffer sequence_rows(std::string name, std::vector<std::int32_t> values, std::int64_t sequences);
Buffer sequence_offsets(std::string name, std::vector<std::int32_t> values, std::int64_t sequences);
// Whole numbers from 1 to 3: a fill's integers are exact in every type.
Buffer scale_buffer(std::string name, std::int64_t count, std::int32_t first);
// Judged by the tolerance of all attention kernels, as a sum of so many terms.
Buffer attention_output(std::string name, DType type, std::int64_t elements, std::int64_t terms,
                        bool narrow_probabilities = false);
// k and v, or k alone with a v_offset: normal, and NaN outside of the `used` tokens, which are numbered through all
// blocks; no range leaves its block.
std::vector<Buffer> kv_buffers(const KvTensors& kv, const std::vector<Range>& used, float scale);

}  // namespace moetune
