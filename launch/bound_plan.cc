#include "launch/bound_plan.h"

#include <cstring>
#include <string>

namespace moetune {
namespace {

cuda::Address resolve(const Name& name, const AddressOf& addresses) {
  const cuda::Address address = addresses(name.view());
  if (address != 0) return address;
  throw cuda::CudaError(cuda::CudaError::Kind::other,
                        "the plan names no buffer or scratch '" + name.text() + "'");
}

// Writes an argument as the kernel's parameter is laid out.
struct ArgumentWriter {
  cuda::EncodedTensorMap& slot;
  const AddressOf& addresses;

  void operator()(const Pointer& pointer) const {
    const cuda::Address address = pointer.buffer.empty() ? 0
                                                         : resolve(pointer.buffer, addresses) +
                                                               static_cast<cuda::Address>(pointer.offset);
    std::memcpy(&slot, &address, sizeof address);
  }
  void operator()(const TensorMap& map) const {
    slot =
        cuda::encode_tensor_map(map, resolve(map.buffer, addresses) + static_cast<cuda::Address>(map.offset));
  }
  template <typename Scalar>
  void operator()(Scalar value) const {
    std::memcpy(&slot, &value, sizeof value);
  }
};

}  // namespace

LoadedCubin::LoadedCubin(const LaunchPlan& plan, std::span<const std::uint8_t> cubin)
    : module_(cuda::load_module(cubin)) {
  for (const Launch& launch : plan.launches) {
    functions_.push_back(cuda::find_function(module_, launch.entry.text()));
    cuda::permit(functions_.back(), launch);
  }
}

BoundPlan::BoundPlan(const LaunchPlan& plan, std::span<const cuda::Function> functions,
                     const AddressOf& addresses) {
  for (const Memset& memset : plan.memsets) {
    const cuda::Address base = resolve(memset.buffer, addresses);
    memsets_.push_back({base + static_cast<cuda::Address>(memset.offset), memset});
  }
  launches_.reserve(plan.launches.size());
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    BoundLaunch& bound = launches_.emplace_back();
    bound.function = functions[i];
    bound.launch = plan.launches[i];
    bound.values.resize(bound.launch.arguments.size());
    for (std::size_t a = 0; a < bound.values.size(); ++a) {
      std::visit(ArgumentWriter{bound.values[a], addresses}, bound.launch.arguments[a].value);
      bound.parameters.push_back(&bound.values[a]);
    }
  }
}

void BoundPlan::enqueue(const cuda::Stream& stream) const {
  auto memset = memsets_.begin();
  for (std::size_t i = 0; i <= launches_.size(); ++i) {
    for (; memset != memsets_.end() && (memset->memset.before <= i || i == launches_.size()); ++memset)
      cuda::set_bytes(memset->address, memset->memset.value, memset->memset.bytes, stream);
    if (i == launches_.size()) break;
    const BoundLaunch& bound = launches_[i];
    cuda::launch(bound.function, bound.launch, const_cast<void**>(bound.parameters.data()), stream);
  }
}

}  // namespace moetune
