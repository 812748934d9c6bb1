// prefill_attention on the host: its CPU reference on what the launch's parameters point to, as the mma body is
// launched.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/prefill_attention/call.h"
#include "kernels/registry.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/kernels/answers/answers.h"

namespace fake_cuda {
namespace {

using namespace moetune;

// Places of the parameters, in the template's order.
enum {
  kQ,
  kK,
  kV,
  kQOffsets,
  kKvOffsets,
  kKvLengths,
  kPageTable,
  kSinks,
  kO,
  kLse,
  kCounter,
  kTableStride,
  kOStrides,
  kQStrides = kOStrides + 2,
  kKStrides = kQStrides + 2,
  kVStrides = kKStrides + 3,
  kBatch = kVStrides + 3,
  kKvHeads,
  kBlocks,
  kQTokens,
  kCapacity,
  kSection,
  kScaleLog2,
  kPartialO,
  kPartialLse,
  kSplits,
  kPlaces,
  kScales = kPlaces,  // of e4m3 alone: of queries, if they are, of keys and of values
};

struct Prefill {
  const Parameters& p;

  std::int64_t wide(int place) const { return static_cast<std::int64_t>(p[static_cast<std::size_t>(place)]); }
  std::int64_t narrow(int place) const { return static_cast<std::int32_t>(wide(place)); }

  Problem problem(const std::string& specialization) const {
    const std::size_t comma = specialization.find(',');
    const std::int64_t group = std::stoll(specialization.substr(specialization.find('=') + 1));
    const moetune::Kernel& kernel = find_kernel("prefill_attention");
    return kernel.parse("batch=" + std::to_string(narrow(kBatch)) +
                        ",q_heads=" + std::to_string(group * narrow(kKvHeads)) +
                        ",kv_heads=" + std::to_string(narrow(kKvHeads)) + specialization.substr(comma));
  }

  PrefillCall call(const PrefillShape& shape) const {
    PrefillCall call{Call{}};
    call.q = {wide(kQStrides), wide(kQStrides + 1)};
    call.o = {wide(kOStrides), wide(kOStrides + 1)};
    call.k = {wide(kKStrides), wide(kKStrides + 1), wide(kKStrides + 2)};
    call.v = {wide(kVStrides), wide(kVStrides + 1), wide(kVStrides + 2)};
    call.q_tokens = narrow(kQTokens);
    call.capacity = narrow(kCapacity);
    call.page_table_stride = wide(kTableStride);
    call.blocks = shape.paged() ? pages(shape, call) : 1;
    float scale = 0;
    std::memcpy(&scale, &p[kScaleLog2], sizeof scale);
    call.scale = scale / std::log2(std::exp(1.0));
    return call;
  }

  // The pool is not passed: it ends with the last page that some query sees.
  std::int64_t pages(const PrefillShape& shape, const PrefillCall& call) const {
    const auto offset = [&](std::int64_t at_row) { return load_integer(DType::i32, at(kQOffsets), at_row); };
    std::int64_t most = 1;
    for (std::int64_t i = 0; i < shape.batch; ++i) {
      const std::int64_t tokens = std::min(load_integer(DType::i32, at(kKvLengths), i), call.capacity);
      const Range seen = shape.visible({offset(i + 1) - offset(i), tokens});
      const std::int64_t row = i * call.page_table_stride;
      for (std::int64_t page = seen.begin / shape.page; page * shape.page < seen.begin + seen.count; ++page)
        most = std::max(most, 1 + load_integer(DType::i32, at(kPageTable), row + page));
    }
    return most;
  }

  void* at(int place) const { return reinterpret_cast<void*>(p[static_cast<std::size_t>(place)]); }

  std::vector<double> loaded(int place, DType type, std::int64_t elements) const {
    return load_elements(type, at(place), elements);
  }
};

}  // namespace

std::size_t prefill_parameters(const std::string& specialization) {
  const auto has = [&](const char* text) { return specialization.find(text) == std::string::npos ? 0 : 1; };
  return kPlaces + static_cast<std::size_t>(2 * has("kv_dtype=e4m3") + has("q_dtype=e4m3"));
}

void attend_new_tokens(const Kernel& kernel, const Parameters& parameters) {
  const Prefill prefill{parameters};
  if (kernel.specialization.empty()) return;  // an image that does not say what it was compiled for
  const Problem problem = prefill.problem(kernel.specialization);
  const PrefillShape shape(problem);
  const PrefillCall call = prefill.call(shape);
  const KvTensors kv = call.kv(shape);
  const std::int64_t columns =
      call.page_table_stride * (shape.batch - 1) + call.capacity / std::max<std::int64_t>(1, shape.page);
  HostTensors inputs = {{"q", prefill.loaded(kQ, shape.q_dtype(), call.row_elements(call.q, shape))},
                        {"k", prefill.loaded(kK, shape.kv_dtype(), kv.elements(call.k))},
                        {"v", prefill.loaded(kV, shape.kv_dtype(), kv.elements(call.v))},
                        {"q_offsets", prefill.loaded(kQOffsets, DType::i32, shape.batch + 1)},
                        {"kv_offsets", prefill.loaded(kKvOffsets, DType::i32, shape.batch + 1)},
                        {"kv_lengths", prefill.loaded(kKvLengths, DType::i32, shape.batch)},
                        {"page_table", prefill.loaded(kPageTable, DType::i32, columns)},
                        {"sinks", prefill.loaded(kSinks, DType::f32, shape.q_heads)}};
  int place = kScales;
  for (const char* const name : {"q_scale", "k_scale", "v_scale"}) {
    if (name[0] == 'q' ? shape.narrow_queries : shape.narrow)
      inputs[name] = prefill.loaded(place++, DType::f32, shape.kv_scales());
  }
  const HostTensors outputs = prefill_attention_on_cpu(problem, call.call(), inputs);
  store_written(shape.dtype, prefill.at(kO), outputs.at("o"));
  if (shape.lse) store_written(DType::f32, prefill.at(kLse), outputs.at("lse"));
}

}  // namespace fake_cuda
