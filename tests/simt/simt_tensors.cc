#include "tests/simt/simt_tensors.h"

#include <algorithm>
#include <utility>

#include "tests/kernels/answers/host_values.h"

namespace moetune::testing {
namespace {

constexpr std::uint8_t kPoison = 0xFF;

}  // namespace

SimtTensors::SimtTensors(const std::vector<Buffer>& buffers, std::uint64_t seed, bool exact) : buffers_(buffers) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    Buffer& buffer = buffers_[i];
    if (buffer.is_read()) inputs_[buffer.name] = host_values(buffer, seed, fill_stream(i, 0));
    if (exact && buffer.role == Role::output) buffer.dtype = exact_dtype(buffer.dtype);
    bytes_[buffer.name].resize(static_cast<std::size_t>(buffer.bytes()));
    if (buffer.is_read()) fill(buffer, inputs_.at(buffer.name));
  }
}

void SimtTensors::fill(const Buffer& buffer, const std::vector<double>& values) {
  std::uint8_t* bytes = bytes_.at(buffer.name).data();
  for (std::size_t i = 0; i < values.size(); ++i)
    store_element(buffer.dtype, bytes, static_cast<std::int64_t>(i), values[i]);
}

void SimtTensors::settle(const std::string& name, const std::vector<Range>& late_elements) {
  const auto of =
      std::find_if(buffers_.begin(), buffers_.end(), [&](const Buffer& buffer) { return buffer.name == name; });
  const std::int64_t size = dtype_bytes(of->dtype);
  std::vector<Range>& late = late_[name];
  for (const Range& elements : late_elements) late.push_back({elements.begin * size, elements.count * size});
}

void SimtTensors::run(SimtDevice& device, const LaunchPlan& plan) {
  SimtBuffers given;
  for (const Buffer& buffer : buffers_) {
    std::vector<std::uint8_t>& bytes = bytes_.at(buffer.name);
    if (buffer.role == Role::output) std::fill(bytes.begin(), bytes.end(), kPoison);
    if (buffer.role == Role::in_out) fill(buffer, inputs_.at(buffer.name));
    const auto made =
        given.emplace(buffer.name, buffer.is_written() ? SimtBuffer(bytes) : SimtBuffer(std::as_const(bytes)));
    if (late_.contains(buffer.name)) made.first->second.settle(late_.at(buffer.name));
  }
  device.run(plan, given);
}

HostTensors SimtTensors::outputs() const {
  HostTensors tensors;
  for (const Buffer& buffer : buffers_) {
    if (buffer.is_written()) tensors[buffer.name] = widened(buffer.dtype, bytes_.at(buffer.name));
  }
  return tensors;
}

}  // namespace moetune::testing
