#include "kernels/attention/inputs.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/integers.h"

namespace moetune {
namespace {

// Rounding o to bf16 alone gives a dissimilarity near 1e-6.
// Of outputs, and where probabilities are rounded to e4m3: as DeepGEMM has it for products of e4m3.
constexpr double kDissimilarity = 1e-5, kNarrowDissimilarity = 1e-3;

// The keys or values that some query sees, in as few runs as the strides allow.
void add_used(Runs& runs, const KvTensors& kv, bool values, const std::vector<Range>& used) {
  const KvStrides& strides = kv.strides(values);
  const std::int64_t dim = kv.head_dim, heads = kv.heads;
  const bool tokens_meet = strides.token == dim, heads_meet = strides.head == dim && strides.token == heads * dim,
             is_dense = tokens_meet && strides.head == kv.tokens * dim;
  for (const Range& tokens : used) {
    const std::int64_t begin = (values ? kv.v_offset : 0) + tokens.begin / kv.tokens * strides.block;
    const std::int64_t first = tokens.begin % kv.tokens, count = tokens.count;
    if (is_dense && count == kv.tokens) {
      runs.add(begin, heads * strides.head);
      continue;
    }
    if (heads_meet) {
      runs.add(begin + first * strides.token, count * strides.token);
      continue;
    }
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t row = begin + head * strides.head + first * strides.token;
      if (tokens_meet) {
        runs.add(row, count * dim);
      } else {
        for (std::int64_t token = 0; token < count; ++token) runs.add(row + token * strides.token, dim);
      }
    }
  }
}

std::vector<Range> unused_kv(const KvTensors& kv, bool values, const std::vector<Range>& used, std::int64_t elements) {
  Runs runs;
  if (!values) add_used(runs, kv, false, used);
  if (values || kv.v_offset > 0) add_used(runs, kv, true, used);
  return runs.complement(elements);
}

}  // namespace

std::int64_t pages_touched(const std::vector<Range>& visible, std::int64_t page) {
  std::int64_t pages = 0;
  for (const Range& range : visible) {
    if (range.count > 0) pages += ceil_div(range.begin + range.count, page) - range.begin / page;
  }
  return pages;
}

PagePool fill_pages(const char* kernel, const std::vector<Range>& visible, std::int64_t page, std::int64_t blocks,
                    std::int64_t table_stride, std::mt19937_64& random) {
  const std::int64_t needed = pages_touched(visible, page);
  if (needed > blocks) {
    throw BadInput(std::string(kernel) + ": the sequences need " + std::to_string(needed) +
                   " pages and kv_blocks=" + std::to_string(blocks));
  }
  std::vector<std::int32_t> order(static_cast<std::size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, random);
  PagePool pool;
  pool.table.reserve(visible.size() * static_cast<std::size_t>(table_stride));
  std::vector<Range> used_of_page(order.size());
  auto next = order.begin();
  for (const Range& range : visible) {
    for (std::int64_t entry = 0; entry < table_stride; ++entry) {
      const std::int64_t first = std::max<std::int64_t>(0, range.begin - entry * page);
      const std::int64_t end = std::min(page, range.begin + range.count - entry * page);
      if (range.count == 0 || first >= end) {
        pool.table.push_back(kGarbagePage);
        continue;
      }
      used_of_page[static_cast<std::size_t>(*next)] = {*next * page + first, end - first};
      pool.table.push_back(*next++);
    }
  }
  for (const Range& used : used_of_page) {
    if (used.count > 0) pool.used.push_back(used);
  }
  return pool;
}

void Runs::add(std::int64_t begin, std::int64_t count) {
  if (count > 0) runs_.push_back({begin, count});
}

std::vector<Range> Runs::complement(std::int64_t elements) {
  const auto before = [](const Range& a, const Range& b) { return a.begin < b.begin; };
  if (!std::is_sorted(runs_.begin(), runs_.end(), before)) std::sort(runs_.begin(), runs_.end(), before);
  std::vector<Range> gaps;
  std::int64_t at = 0;
  for (const Range& run : runs_) {
    if (run.begin > at) gaps.push_back({at, run.begin - at});
    at = std::max(at, run.begin + run.count);
  }
  if (at < elements) gaps.push_back({at, elements - at});
  return gaps;
}

float query_scale(float usual, std::int64_t softcap) { return std::max(usual, static_cast<float>(softcap)); }

Buffer normal_buffer(std::string name, DType type, std::int64_t elements, float scale) {
  Buffer buffer{std::move(name), type, elements, Role::input, false, {}};
  buffer.fill.kind = Fill::Kind::normal;
  buffer.fill.scale = scale;
  return buffer;
}

Buffer integer_buffer(std::string name, std::vector<std::int32_t> values) {
  Buffer buffer{std::move(name), DType::i32, static_cast<std::int64_t>(values.size()), Role::input, false, {}};
  buffer.fill.kind = Fill::Kind::integers;
  buffer.fill.integers = std::move(values);
  return buffer;
}

Buffer sequence_rows(std::string name, std::vector<std::int32_t> values, std::int64_t sequences) {
  Buffer buffer = integer_buffer(std::move(name), std::move(values));
  buffer.sequences = sequences;
  return buffer;
}

Buffer sequence_offsets(std::string name, std::vector<std::int32_t> values, std::int64_t sequences) {
  Buffer buffer = sequence_rows(std::move(name), std::move(values), sequences);
  buffer.offsets = sequences > 0;
  return buffer;
}

Buffer scale_buffer(std::string name, std::int64_t count, std::int32_t first) {
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(1 + static_cast<std::int32_t>((first + i) % 3));
  Buffer buffer = integer_buffer(std::move(name), std::move(values));
  buffer.dtype = DType::f32;
  return buffer;
}

Buffer attention_output(std::string name, DType type, std::int64_t elements, std::int64_t terms,
                        bool narrow_probabilities) {
  Buffer buffer{std::move(name), type, elements, Role::output, false, {}};
  buffer.check = OutputCheck::within({.dissimilarity = narrow_probabilities ? kNarrowDissimilarity : kDissimilarity,
                                      .baseline_factor = 2,
                                      .terms = static_cast<double>(terms)});
  return buffer;
}

std::vector<Buffer> kv_buffers(const KvTensors& kv, const std::vector<Range>& used, float scale) {
  std::vector<Buffer> buffers;
  for (const bool values : {false, true}) {
    if (values && kv.v_offset > 0) break;
    std::int64_t elements = kv.elements(kv.strides(values));
    if (kv.v_offset > 0) elements = std::max(elements, kv.v_offset + kv.elements(kv.v));
    Buffer buffer = normal_buffer(values ? "v" : "k", kv.dtype, elements, scale);
    buffer.rotates = true;
    buffer.fill.poison = unused_kv(kv, values, used, elements);
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

}  // namespace moetune
