#include "tuner/worker/loaded_plan.h"

#include <cstring>

namespace moetune {

Arena::Arena(std::string name, std::int64_t bytes, std::int64_t copies, const cuda::Stream& stream)
    : name_(std::move(name)),
      layout_(ArenaLayout::of(bytes, copies)),
      memory_(cuda::allocate(layout_.total())) {
  cuda::set_bytes(memory_.get(), kPoisonByte, layout_.total(), stream);
}

std::string Arena::damage(Harness& harness) const {
  const std::optional<std::int64_t> first = harness.first_damage(memory_.get(), layout_);
  if (!first) return "";
  std::string text = "wrote outside '" + name_ + "': ";
  if (*first < layout_.guard)
    return text + std::to_string(layout_.guard - *first) + " bytes before its start";
  const std::int64_t copy = (*first - layout_.guard) / layout_.stride;
  const std::int64_t end = layout_.offset(copy) + layout_.bytes;
  text += std::to_string(*first - end) + " bytes past its end";
  return layout_.copies == 1 ? text : text + " (copy " + std::to_string(copy) + ")";
}

LoadedPlan::LoadedPlan(const Plan& plan, std::span<const std::uint8_t> cubin, AddressOf buffers,
                       const cuda::Stream& stream)
    : plan_(plan), buffers_(std::move(buffers)), stream_(stream), module_(cuda::load_module(cubin)) {
  for (const Launch& launch : plan_.launches) {
    functions_.push_back(cuda::find_function(module_, launch.entry));
    cuda::permit(functions_.back(), launch);
  }
  for (const Scratch& scratch : plan_.scratch) {
    const Arena& arena = scratch_.emplace_back(scratch.name, scratch.bytes, 1, stream_);
    if (scratch.zeroed) cuda::set_bytes(arena.address(0), 0, scratch.bytes, stream_);
  }
}

cuda::Address LoadedPlan::resolve(const std::string& name, std::int64_t copy) const {
  for (const Arena& arena : scratch_) {
    if (arena.name() == name) return arena.address(0);
  }
  const cuda::Address address = buffers_(name, copy);
  if (address == 0)
    throw cuda::CudaError(cuda::CudaError::Kind::other, "the plan names no buffer or scratch '" + name + "'");
  return address;
}

LoadedPlan::BoundLaunch LoadedPlan::bind(const Launch& launch, std::int64_t copy) const {
  constexpr std::size_t kSlot = sizeof(cuda::EncodedTensorMap);
  BoundLaunch bound;
  std::vector<std::size_t> first_slots;
  const auto append = [&](const void* bytes, std::size_t size) {
    first_slots.push_back(bound.slots.size());
    bound.slots.resize(bound.slots.size() + (size + kSlot - 1) / kSlot);
    std::memcpy(&bound.slots[first_slots.back()], bytes, size);
  };
  for (const Argument& argument : launch.arguments) {
    if (const auto* pointer = std::get_if<Pointer>(&argument)) {
      const cuda::Address address =
          resolve(pointer->buffer, copy) + static_cast<cuda::Address>(pointer->offset);
      append(&address, sizeof address);
    } else if (const auto* scalar = std::get_if<Scalar>(&argument)) {
      append(scalar->bytes.data(), scalar->bytes.size());
    } else {
      const auto& map = std::get<TensorMap>(argument);
      const cuda::EncodedTensorMap encoded = cuda::encode_tensor_map(map, resolve(map.buffer, copy));
      append(&encoded, sizeof encoded);
    }
  }
  for (const std::size_t slot : first_slots) bound.parameters.push_back(&bound.slots[slot]);
  return bound;
}

const LoadedPlan::BoundCopy& LoadedPlan::bound(std::int64_t copy) {
  const auto index = static_cast<std::size_t>(copy);
  if (bound_.size() <= index) bound_.resize(index + 1);
  BoundCopy& launches = bound_[index];
  if (launches.empty()) {
    for (const Launch& launch : plan_.launches) launches.push_back(bind(launch, copy));
  }
  return launches;
}

void LoadedPlan::enqueue(std::int64_t copy) {
  const BoundCopy& launches = bound(copy);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    cuda::launch(functions_[i], plan_.launches[i], const_cast<void**>(launches[i].parameters.data()),
                 stream_);
  }
}

std::string LoadedPlan::scratch_damage(Harness& harness) const {
  for (const Arena& arena : scratch_) {
    if (std::string text = arena.damage(harness); !text.empty()) return text;
  }
  return "";
}

}  // namespace moetune
