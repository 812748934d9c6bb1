#include "launch/bound_plan.h"

#include <array>
#include <cstring>
#include <string>

namespace moetune {
namespace {

cuda::Address resolve(const Name& name, const AddressOf& addresses) {
  const cuda::Address address = addresses(name.view());
  if (address != 0) return address;
  throw cuda::CudaError(cuda::CudaError::Kind::other, "the plan names no buffer or scratch '" + name.text() + "'");
}

// The bytes of a scalar or an address, as the kernel's parameter is laid out.
struct ScalarBits {
  const AddressOf& addresses;

  std::uint64_t operator()(const Pointer& pointer) const {
    if (pointer.buffer.empty()) return 0;
    return resolve(pointer.buffer, addresses) + static_cast<cuda::Address>(pointer.offset);
  }
  std::uint64_t operator()(const TensorMap&) const { return 0; }
  std::uint64_t operator()(const StructValue&) const { return 0; }
  template <typename Scalar>
  std::uint64_t operator()(Scalar value) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
};

}  // namespace

LoadedCubin::LoadedCubin(const LaunchPlan& plan, std::span<const std::uint8_t> cubin)
    : module_(cuda::load_module(cubin)) {
  const std::set<std::string> mangled = cuda::mangled_in(cubin);
  for (const Launch& launch : plan.launches) {
    functions_.push_back(cuda::find_function(module_, launch.entry.text(), mangled));
    cuda::permit(functions_.back(), launch);
  }
}

cuda::Address LoadedCubin::symbol(const Memset& memset) const {
  return cuda::find_variable(module_, memset.symbol.text(), memset.bytes);
}

BoundPlan::BoundPlan(const LaunchPlan& plan, std::span<const cuda::Function> functions, const AddressOf& addresses,
                     const SymbolOf& symbols, const EncodeMap& encode) {
  for (const Memset& memset : plan.memsets) {
    const cuda::Address base = resolve(memset.buffer, addresses);
    memsets_.push_back(
        {base + static_cast<cuda::Address>(memset.offset), memset.symbol.empty() ? 0 : symbols(memset), memset});
  }
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    BoundLaunch& bound = launches_.emplace_back();
    bound.function = functions[i];
    bound.shape = launch;
    bound.first = places_.size();
    bound.count = launch.arguments.size();
    for (const Argument& argument : launch.arguments) places_.push_back(store(argument, addresses, encode));
  }
}

BoundPlan::Place BoundPlan::store(const Argument& argument, const AddressOf& addresses, const EncodeMap& encode) {
  if (const auto* map = std::get_if<TensorMap>(&argument.value)) {
    const cuda::Address base = resolve(map->buffer, addresses) + static_cast<cuda::Address>(map->offset);
    large_.push_back(encode(*map, base));
    return {true, static_cast<std::uint8_t>(large_.size() - 1)};
  }
  if (const auto* value = std::get_if<StructValue>(&argument.value)) {
    static_assert(decltype(value->words)::capacity() * sizeof(std::uint64_t) == sizeof(cuda::EncodedTensorMap));
    std::memcpy(large_.emplace_back().bytes.data(), value->words.data(), value->words.size() * sizeof(std::uint64_t));
    return {true, static_cast<std::uint8_t>(large_.size() - 1)};
  }
  scalars_.push_back(std::visit(ScalarBits{addresses}, argument.value));
  return {false, static_cast<std::uint8_t>(scalars_.size() - 1)};
}

void BoundPlan::enqueue(cuda::StreamRef stream) const {
  const BoundMemset* memset = memsets_.begin();
  for (std::size_t i = 0; i <= launches_.size(); ++i) {
    for (; memset != memsets_.end() && (memset->memset.before <= i || i == launches_.size()); ++memset) {
      if (memset->symbol != 0) {
        cuda::copy_on_device(memset->symbol, memset->address, memset->memset.bytes, stream);
      } else {
        cuda::set_bytes(memset->address, memset->memset.value, memset->memset.bytes, stream);
      }
    }
    if (i == launches_.size()) break;
    const BoundLaunch& launch = launches_[i];
    std::array<void*, decltype(Launch::arguments)::capacity()> parameters;
    for (std::size_t a = 0; a < launch.count; ++a) {
      const Place place = places_[launch.first + a];
      const void* const value = place.is_large ? static_cast<const void*>(&large_[place.index])
                                               : static_cast<const void*>(&scalars_[place.index]);
      parameters[a] = const_cast<void*>(value);  // the driver's interface lacks the const
    }
    cuda::launch(launch.function, launch.shape, parameters.data(), stream);
  }
}

}  // namespace moetune
