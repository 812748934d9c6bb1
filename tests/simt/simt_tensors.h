// The buffers of a kernel's problem for SimtDevice: inputs hold host_values, outputs are poisoned before every run.
//
// Plain data. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "tests/simt/simt_device.h"

namespace moetune::testing {

class SimtTensors {
 public:
  // Of the problem's buffers, each at its own stream of the seed. `exact` makes floating-point outputs f32, as the
  // exact reference writes them.
  SimtTensors(const std::vector<Buffer>& buffers, std::uint64_t seed, bool exact = false);

  // The launch in front writes these elements of an input alone, at its end. They are NaN until then.
  void settle(const std::string& name, const std::vector<Range>& late_elements);

  // Fills in_out buffers anew, poisons outputs (0xFF), and runs.
  void run(SimtDevice& device, const LaunchPlan& plan);

  // Inputs (and in_out buffers as they were before), for answer_on_cpu.
  const HostTensors& inputs() const { return inputs_; }
  // What the last run wrote.
  HostTensors outputs() const;
  std::vector<std::uint8_t>& bytes(const std::string& name) { return bytes_.at(name); }

 private:
  void fill(const Buffer& buffer, const std::vector<double>& values);

  std::vector<Buffer> buffers_;
  HostTensors inputs_;
  std::map<std::string, std::vector<std::uint8_t>> bytes_;
  std::map<std::string, std::vector<Range>> late_;  // bytes
};

}  // namespace moetune::testing
