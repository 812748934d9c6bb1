#include "tests/fuzz/interface_tensors.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "tests/kernels/answers/host_values.h"

namespace moetune::fuzz {
namespace {

// DLPack's code and bits.
std::pair<std::uint8_t, std::uint8_t> described(DType type) {
  const auto bits = static_cast<std::uint8_t>(8 * dtype_bytes(type));
  switch (type) {
    case DType::i32:
    case DType::i64:
      return {0, bits};
    case DType::u8:
      return {1, bits};
    case DType::bf16:
      return {4, bits};
    case DType::e4m3:
      return {10, bits};
    case DType::f16:
    case DType::f32:
      return {2, bits};
    default:
      throw std::logic_error("no kernel has tensors of that type");
  }
}

}  // namespace

InterfaceTensors::InterfaceTensors(const Problem& problem, const LastDimensions& last) {
  constexpr std::uint64_t kSeed = 3, kAlignment = 64;
  const Kernel& kernel = find_kernel(problem.kernel);
  std::size_t position = 0;
  for (const Buffer& buffer : kernel.buffers(problem, kSeed)) {
    Tensor& tensor = tensors_[buffer.name];
    tensor.bytes.resize(static_cast<std::size_t>(buffer.bytes()) + kAlignment);
    const auto address = reinterpret_cast<std::uintptr_t>(tensor.bytes.data());
    tensor.description.data = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
    if (buffer.is_read()) {
      const std::vector<double> values = host_values(buffer, kSeed, fill_stream(position, 0));
      for (std::size_t i = 0; i < values.size(); ++i)
        store_element(buffer.dtype, tensor.description.data, static_cast<std::int64_t>(i), values[i]);
    }
    if (const auto found = last.find(buffer.name); found != last.end()) tensor.shape = found->second;
    const std::int64_t row =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), std::int64_t{1}, std::multiplies<>());
    tensor.shape.insert(tensor.shape.begin(), buffer.elements / row);
    DLTensor& is = tensor.description;
    is.device_type = 2;  // CUDA
    is.ndim = static_cast<std::int32_t>(tensor.shape.size());
    is.shape = tensor.shape.data();
    std::tie(is.code, is.bits) = described(buffer.dtype);
    is.lanes = 1;
    ++position;
  }
  const std::unique_ptr<const FamilyInterface> interface = kernel.family_interface(problem);
  for (const TensorSlot& slot : interface->tensors()) {
    const auto found = tensors_.find(slot.name.text());
    pointers_.push_back(slot.present && found != tensors_.end() ? &found->second.description : nullptr);
  }
}

}  // namespace moetune::fuzz
