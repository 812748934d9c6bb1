#include "tests/gpu/device_tensors.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/integers.h"
#include "tests/gpu/gpu.h"
#include "tests/kernels/answers/answers.h"
#include "tests/kernels/answers/host_values.h"

namespace moetune {
namespace {

constexpr std::int64_t kAlignment = 256;

std::vector<std::uint8_t> narrowed(DType type, const std::vector<double>& values) {
  std::vector<std::uint8_t> bytes(values.size() * static_cast<std::size_t>(dtype_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i)
    store_element(type, bytes.data(), static_cast<std::int64_t>(i), values[i]);
  return bytes;
}

}  // namespace

DeviceTensors::DeviceTensors(const Kernel& kernel, const FamilyMember& member, std::uint64_t seed,
                             const cuda::Stream& stream)
    : buffers_(kernel.buffers(member.problem, member.call, seed)), stream_(stream) {
  const auto interface = kernel.family_interface(member.problem);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& buffer = buffers_[i];
    memory_.push_back(cuda::allocate(buffer.bytes()));
    cuda::set_bytes(memory_.back().get(), 0xFF, buffer.bytes(), stream);
    slots_.push_back(-1);
    for (std::size_t slot = 0; slot < interface->tensors().size(); ++slot) {
      if (interface->tensors()[slot].name.view() != buffer.name) continue;
      slots_.back() = static_cast<int>(slot);
      arguments_.tensors[slot] = reinterpret_cast<void*>(memory_.back().get());
    }
    if (!buffer.is_read()) continue;
    inputs_[buffer.name] = host_values(buffer, seed, fill_stream(i, 0));
    cuda::copy_to_device(memory_.back().get(), narrowed(buffer.dtype, inputs_[buffer.name]), stream);
  }
  std::copy(member.call.integers.begin(), member.call.integers.end(), arguments_.integers);
  std::copy(member.call.reals.begin(), member.call.reals.end(), arguments_.reals);
}

cuda::Address DeviceTensors::address(std::string_view name) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].name == name) return memory_[i].get();
  }
  return 0;
}

void DeviceTensors::poison_outputs() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].is_written()) cuda::set_bytes(memory_[i].get(), 0xFF, buffers_[i].bytes(), stream_);
  }
}

void DeviceTensors::check_outputs(const FamilyMember& member) const {
  for (const auto& [name, expected] : answer_on_cpu(member.problem, member.call, inputs_)) {
    CAPTURE(name);
    const auto written =
        std::find_if(buffers_.begin(), buffers_.end(), [&](const Buffer& buffer) { return buffer.name == name; });
    REQUIRE(written != buffers_.end());
    if (is_integer(written->dtype)) {
      CHECK(count_differences(fetch(name), expected) == 0);
    } else {
      check_close(fetch(name), expected, 0.02);
    }
  }
}

moetune_arguments DeviceTensors::arguments_at(cuda::Address outputs) const {
  moetune_arguments moved = arguments_;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].is_written() || slots_[i] < 0) continue;
    moved.tensors[slots_[i]] = reinterpret_cast<void*>(outputs);
    outputs += static_cast<cuda::Address>(ceil_div(buffers_[i].bytes(), kAlignment) * kAlignment);
  }
  return moved;
}

std::int64_t DeviceTensors::output_bytes() const {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].is_written() && slots_[i] >= 0) bytes += ceil_div(buffers_[i].bytes(), kAlignment) * kAlignment;
  }
  return bytes;
}

std::vector<double> DeviceTensors::fetch(const std::string& name) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].name != name) continue;
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(buffers_[i].bytes()));
    cuda::copy_to_host(bytes, memory_[i].get(), stream_);
    return widened(buffers_[i].dtype, bytes);
  }
  return {};
}

}  // namespace moetune
