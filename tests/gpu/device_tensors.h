// A problem's tensors on the GPU in this process, as a server has them: inputs filled as for a search, and arguments of
// moetune_launch. One thread, but for what is const. `stream` must outlive them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "include/moetune.h"
#include "kernels/kernel.h"
#include "launch/driver.h"
#include "tests/kernels/random_call.h"

namespace moetune {

class DeviceTensors {
 public:
  DeviceTensors(const Kernel& kernel, const FamilyMember& member, std::uint64_t seed, const cuda::Stream& stream);

  const moetune_arguments& arguments() const { return arguments_; }
  // 0 if there is no buffer of that name.
  cuda::Address address(std::string_view name) const;

  void poison_outputs();
  // Against float64 on the CPU, with doctest.
  void check_outputs(const FamilyMember& member) const;

  // The same call with outputs elsewhere: one behind the other from this address on, each at a multiple of 256 bytes.
  moetune_arguments arguments_at(cuda::Address outputs) const;
  std::int64_t output_bytes() const;  // that they take there

 private:
  std::vector<double> fetch(const std::string& name) const;

  std::vector<Buffer> buffers_;
  const cuda::Stream& stream_;
  std::vector<cuda::Memory> memory_;
  std::vector<int> slots_;  // of the buffers; -1 for none
  HostTensors inputs_;
  moetune_arguments arguments_{};
};

}  // namespace moetune
