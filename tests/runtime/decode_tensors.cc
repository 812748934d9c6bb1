#include "tests/runtime/decode_tensors.h"

#include <algorithm>
#include <cmath>

#include "include/moetune.h"
#include "kernels/buffer.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"

namespace moetune::testing {
namespace {

constexpr std::uint64_t kSeed = 3;
constexpr std::size_t kSlots = 10;

}  // namespace

DecodeTensors::DecodeTensors(const std::string& text)
    : problem_(find_kernel("decode_attention").parse(text + ",layout=hnd")),
      sizes_(kSlots),
      tensors_(kSlots),
      pointers_(kSlots) {
  const Kernel& kernel = find_kernel("decode_attention");
  std::size_t position = 0;
  for (const Buffer& buffer : kernel.buffers(problem_, kSeed)) {
    std::vector<std::uint8_t>& bytes = bytes_[buffer.name];
    bytes.resize(static_cast<std::size_t>(buffer.bytes()) + 256);
    if (buffer.role == Role::input) {
      std::vector<double> values = host_values(buffer, kSeed, fill_stream(position, 0));
      for (std::size_t i = 0; i < values.size(); ++i)
        store_element(buffer.dtype, bytes.data(), static_cast<std::int64_t>(i), values[i]);
      values_[buffer.name] = std::move(values);
    }
    ++position;
  }
  const std::int64_t batch = problem_["batch"], heads = problem_["q_heads"], dim = problem_["head_dim"];
  const std::int64_t page = problem_["page"], kv_heads = problem_["kv_heads"];
  const Call call = kernel.default_call(problem_);
  const std::int64_t blocks = call.integers[MOETUNE_DECODE_BLOCKS];
  add(MOETUNE_DECODE_Q, "q", {batch, heads, dim}, DType::bf16);
  const std::int64_t tokens = page > 0 ? page : problem_["context"];
  add(MOETUNE_DECODE_K, "k", {blocks, kv_heads, tokens, dim}, DType::bf16);
  add(MOETUNE_DECODE_V, "v", {blocks, kv_heads, tokens, dim}, DType::bf16);
  if (page > 0) {
    const std::int64_t columns = call.integers[MOETUNE_DECODE_PAGE_TABLE_STRIDE];
    add(MOETUNE_DECODE_PAGE_TABLE, "page_table", {batch, columns}, DType::i32);
  }
  add(MOETUNE_DECODE_LENGTHS, "lengths", {batch}, DType::i32);
  add(MOETUNE_DECODE_O, "o", {batch, heads, dim}, DType::bf16);
}

void DecodeTensors::add(int slot, const std::string& name, std::vector<std::int64_t> sizes, DType type) {
  const auto index = static_cast<std::size_t>(slot);
  sizes_[index] = std::move(sizes);
  // Tensors begin at multiples of 64 bytes, as a device's do.
  auto address = reinterpret_cast<std::uintptr_t>(bytes_.at(name).data());
  const std::uintptr_t aligned = (address + 63) / 64 * 64;
  std::vector<std::uint8_t>& bytes = bytes_.at(name);
  std::copy_backward(bytes.begin(), bytes.end() - static_cast<std::ptrdiff_t>(aligned - address) - 64,
                     bytes.end() - 64);
  DLTensor& tensor = tensors_[index];
  tensor = {reinterpret_cast<void*>(aligned),
            2,
            0,
            static_cast<std::int32_t>(sizes_[index].size()),
            0,
            0,
            1,
            sizes_[index].data(),
            nullptr,
            0};
  tensor.code = type == DType::bf16 ? 4 : 0;
  tensor.bits = type == DType::bf16 ? 16 : 32;
  pointers_[index] = &tensor;
}

void DecodeTensors::clear_output() {
  auto* const o = static_cast<std::uint8_t*>(tensors_[MOETUNE_DECODE_O].data);
  std::fill_n(o, 2 * problem_["batch"] * problem_["q_heads"] * problem_["head_dim"], std::uint8_t{0xff});
}

double DecodeTensors::error() const {
  const HostTensors right = answer_on_cpu(problem_, values_);
  const std::vector<double>& o = right.at("o");
  double worst = 0;
  for (std::size_t i = 0; i < o.size(); ++i) {
    const double written = load_element(DType::bf16, tensors_[MOETUNE_DECODE_O].data, static_cast<std::int64_t>(i));
    if (std::isnan(written)) return INFINITY;
    worst = std::max(worst, std::abs(written - o[i]));
  }
  return worst;
}

}  // namespace moetune::testing
