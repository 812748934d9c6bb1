#include "operator.h"

#include <algorithm>

namespace moetune::python {
namespace {

std::string text_of(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

}  // namespace

moetune_choice Operator::choose(const Given&, moetune_family* family, const FreeExtents& most) const {
  moetune_choice choice;
  check(moetune_pick(family, most.values.data(), most.count, 0, &choice));
  return choice;
}

void Operator::refuse(const std::string& sentence) const {
  fail(MOETUNE_INVALID_ARGUMENT, std::string(name()) + ": " + sentence);
}

const DLTensor& Operator::tensor(const Given& given, int slot, const char* name) const {
  if (given.tensors[slot] != nullptr) return *given.tensors[slot];
  refuse(std::string("tensor '") + name + "' is missing");
}

void Operator::require(const Given& given, const TensorShape& expected) const {
  const DLTensor& found = tensor(given, expected.slot, expected.name);
  const std::span<const int64_t> shape(found.shape, static_cast<size_t>(found.ndim));
  if (!std::ranges::equal(shape, expected.shape()))
    refuse(std::string("'") + expected.name + "' is " + text_of(shape) + "; it must be " +
           text_of(expected.shape()));
}

int64_t number_of(DLDataType type) { return type.code << 24 | type.bits << 16 | type.lanes; }

FamilyKey key_of(const Overload& overload, const Given& given) {
  const Parameter& first = overload.parameters.front();
  if (const DLTensor* tensor = given.tensors[first.place]; tensor != nullptr &&
                                                           tensor->device.device_type != kDLCUDA &&
                                                           tensor->device.device_type != kDLCUDAManaged)
    fail(MOETUNE_WRONG_DEVICE,
         std::string(overload.of.name()) + ": '" + first.name + "' is not in the memory of a GPU");
  return overload.of.key(given);
}

int64_t choice_of(const Overload& overload, const Parameter& parameter, std::string_view name) {
  const auto& choices = parameter.choices;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (name == choices[i]) return static_cast<int64_t>(i);
  }
  std::string known = choices.front();
  for (size_t i = 1; i < choices.size(); ++i)
    known += (i + 1 == choices.size() ? " or " : ", ") + std::string(choices[i]);
  fail(MOETUNE_INVALID_ARGUMENT, std::string(overload.of.name()) + ": " + parameter.name + " is '" +
                                     std::string(name) + "'; it must be " + known);
}

}  // namespace moetune::python
