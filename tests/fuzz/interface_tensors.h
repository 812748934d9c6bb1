// A kernel's tensors as a server has them: in host memory, which is the scripted driver's device memory, described for
// DLPack by the family's slots. Immutable after it was made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/registry.h"
#include "tests/runtime/decode_tensors.h"

namespace moetune::fuzz {

class InterfaceTensors {
 public:
  // The last dimensions of a tensor that is no plain list, by its name; what lies before is one dimension.
  using LastDimensions = std::map<std::string, std::vector<std::int64_t>>;

  InterfaceTensors(const Problem& problem, const LastDimensions& last);
  InterfaceTensors(const InterfaceTensors&) = delete;

  // By slot; null for what the family lacks.
  const std::vector<const DLTensor*>& tensors() const { return pointers_; }

 private:
  struct Tensor {
    std::vector<std::uint8_t> bytes;
    std::vector<std::int64_t> shape;
    DLTensor description{};
  };

  std::map<std::string, Tensor> tensors_;
  std::vector<const DLTensor*> pointers_;
};

}  // namespace moetune::fuzz
