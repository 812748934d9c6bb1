// A small decode_attention problem in host memory, which is the scripted driver's device memory: tensors,
// their DLPack descriptions, and the right answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/registry.h"

// As dlpack.h has it.
struct DLTensor {
  void* data;
  std::int32_t device_type, device_id, ndim;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  const std::int64_t* shape;
  const std::int64_t* strides;
  std::uint64_t byte_offset;
};

namespace moetune::testing {

class DecodeTensors {
 public:
  explicit DecodeTensors(const std::string& problem);

  // By slot of include/moetune_kernels.h; null for what the family lacks.
  const std::vector<const DLTensor*>& tensors() const { return pointers_; }
  DLTensor& tensor(int slot) { return tensors_[static_cast<std::size_t>(slot)]; }

  // The largest difference of o from the right answer; o must have been written.
  double error() const;
  void clear_output();

 private:
  struct Shape {
    std::vector<std::int64_t> sizes;
  };
  void add(int slot, const std::string& name, std::vector<std::int64_t> sizes, DType type);

  Problem problem_;
  std::map<std::string, std::vector<std::uint8_t>> bytes_;
  std::map<std::string, std::vector<double>> values_;
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<DLTensor> tensors_;
  std::vector<const DLTensor*> pointers_;
};

}  // namespace moetune::testing
