#include "operator.h"

#include <algorithm>
#include <bit>

#include "call_signature.h"

namespace moetune::python {
namespace {

constexpr std::pair<DLDataType, const char*> kTypeNames[] = {
    {kBf16, "bf16"},          {kF16, "fp16"},  {kF32, "fp32"}, {{kDLFloat, 64, 1}, "fp64"},
    {kE4m3, "e4m3"},          {kBool, "bool"}, {kU8, "u8"},    {{kDLInt, 8, 1}, "i8"},
    {{kDLInt, 16, 1}, "i16"}, {kI32, "i32"},   {kI64, "i64"},
};

std::string text_of(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// Whether elements lie side by side from a dimension on.
bool is_contiguous(const DLTensor& tensor, int from) {
  if (tensor.strides == nullptr) return true;
  int64_t count = 1;
  for (int d = tensor.ndim; d-- > from;) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != count) return false;
    count *= std::max<int64_t>(tensor.shape[d], 1);
  }
  return true;
}

bool is_on_gpu(const DLTensor& tensor) {
  return tensor.device.device_type == kDLCUDA || tensor.device.device_type == kDLCUDAManaged;
}

bool is_of_word(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '_';
}

// The argument at a slot, or at a place in launch's lists.
std::string name_of(const Overload& overload, const Given& given, size_t place) {
  for (const Parameter& parameter : overload.parameters) {
    if (parameter.is_tensor() && static_cast<size_t>(parameter.place) == place) return parameter.name;
    if (parameter.kind == Parameter::kRead && place < given.launched.read)
      return std::string(parameter.name) + "[" + std::to_string(place) + "]";
  }
  return "out[" + std::to_string(place - given.launched.read) + "]";
}

void check_devices(const Overload& overload, const Given& given, size_t count) {
  const auto refuse = [&](size_t place, const std::string& what) {
    fail(MOETUNE_WRONG_DEVICE,
         std::string(overload.of.name()) + ": '" + name_of(overload, given, place) + "' is " + what);
  };
  std::optional<size_t> first;
  for (const Parameter& parameter : overload.parameters)
    if (!first && parameter.is_tensor()) first = static_cast<size_t>(parameter.place);
  for (size_t place = 0; place < count; ++place) {
    const DLTensor* const tensor = given.tensors[place];
    if (tensor == nullptr) continue;
    if (!is_on_gpu(*tensor)) refuse(place, "not in the memory of a GPU");
    if (!first || given.tensors[*first] == nullptr) first = place;
    if (tensor->device.device_id != given.tensors[*first]->device.device_id)
      refuse(place, "on device " + std::to_string(tensor->device.device_id) + "; '" + name_of(overload, given, *first) +
                        "' is on device " + std::to_string(given.tensors[*first]->device.device_id));
  }
}

}  // namespace

std::string type_text(DLDataType type) {
  for (const auto& [known, name] : kTypeNames) {
    if (number_of(known) == number_of(type)) return name;
  }
  return "of a type that no kernel takes";
}

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
  require_shape(found, expected);
  if (expected.is_sliced) return require_side_by_side(found, expected.name);
  if (!is_contiguous(found, 0)) refuse(std::string("'") + expected.name + "' is not contiguous");
}

void Operator::require_shape(const DLTensor& found, const TensorShape& expected) const {
  const std::span<const int64_t> shape(found.shape, static_cast<size_t>(found.ndim));
  if (!std::ranges::equal(shape, expected.shape()))
    refuse(std::string("'") + expected.name + "' is " + text_of(shape) + "; it must be " + text_of(expected.shape()));
  require_type(found, expected.name, expected.type);
}

void Operator::require_type(const DLTensor& found, const char* name, DLDataType type) const {
  const int64_t given = number_of(found.dtype), wanted = number_of(type);
  if (given == wanted || (wanted == number_of(kBool) && given == number_of(kU8))) return;
  refuse(std::string("'") + name + "' is " + type_text(found.dtype) + "; it must be " + type_text(type));
}

void Operator::require_side_by_side(const DLTensor& found, const char* name) const {
  if (is_contiguous(found, found.ndim - 1)) return;
  refuse(std::string("the elements of the last dimension of '") + name + "' must lie side by side");
}

void Operator::require_at_least(int64_t least, const char* name, int64_t value) const {
  if (value < least)
    refuse(std::string(name) + " is " + std::to_string(value) + "; it must be " + std::to_string(least) + " or more");
}

// A sentence of the runtime names tensors as moetune.h does, and strides after them ("o_head_stride").
void Operator::fail_with(moetune_status status) const {
  std::string_view rest = moetune_last_error();
  const std::string prefix = std::string(kernel()) + ": ";
  if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  std::string sentence = std::string(name()) + ": ";
  if (status != MOETUNE_INVALID_ARGUMENT && status != MOETUNE_WRONG_DEVICE) fail(status, sentence + std::string(rest));
  while (!rest.empty()) {
    const auto end = std::ranges::find_if_not(rest, is_of_word);
    const std::string_view word = rest.substr(0, std::max<size_t>(1, static_cast<size_t>(end - rest.begin())));
    std::string own(word);
    for (const OtherName& other : other_names()) {
      if (word == other.kernels) own = other.own;
      if (word.starts_with(other.kernels) && word.ends_with("_stride") && word[other.kernels.size()] == '_')
        own = std::string(other.own).append(word.substr(other.kernels.size()));
    }
    sentence += own;
    rest.remove_prefix(word.size());
  }
  fail(status, sentence);
}

size_t LaunchedCall::next(Parameter::Kind list) {
  const bool is_number = list == Parameter::kIntegers || list == Parameter::kReals;
  size_t& count = list == Parameter::kRead       ? read
                  : list == Parameter::kWritten  ? written
                  : list == Parameter::kIntegers ? integer_count
                                                 : real_count;
  const size_t before = list == Parameter::kWritten ? read : 0, most = list == Parameter::kIntegers ? integers.size()
                                                                       : is_number                  ? reals.size()
                                                                                   : MOETUNE_MAX_TENSORS;
  if (before + count == most)
    fail(MOETUNE_INVALID_ARGUMENT,
         "launch: no kernel takes more than " + std::to_string(most) + (is_number ? " numbers of a type" : " tensors"));
  return before + count++;
}

void Operator::plan(const Overload&, const Given& given, CallPlan& plan) const {
  plan.key = key(given);
  plan.extents = extents(given);
  plan.is_idle = is_idle(given);
  plan.outputs = outputs(given, plan.key);
  plan.problem = problem(given, plan.key);
  plan.options = bind_options(given);
}

CallPlan& plan_of(const Overload& overload, Given& given) {
  static thread_local RecentCalls<CallPlan> recent;
  const LaunchedCall& launched = given.launched;
  const size_t count = overload.tensor_count + launched.read + launched.written;
  CallSignature signature;
  signature.add(&overload);
  if (overload.tensor_count > 0) {
    for (const int64_t integer : given.integers) signature.add(integer);
    signature.add(std::bit_cast<int64_t>(given.scale));
  } else {
    signature.add_text(launched.kernel);
    signature.add_text(launched.facts);
    for (const size_t number : {launched.read, launched.integer_count, launched.real_count})
      signature.add(static_cast<int64_t>(number));
  }
  for (size_t place = 0; place < count; ++place) signature.add_tensor(given.tensors[place]);
  CallPlan* plan = recent.find(signature);
  if (plan == nullptr) {
    check_devices(overload, given, count);
    CallPlan made;
    overload.of.plan(overload, given, made);
    plan = &recent.add(signature, std::move(made));
  }
  if (plan->listed > 0) {
    const DLTensor* listed[MOETUNE_MAX_TENSORS];
    std::copy_n(given.tensors, plan->listed, listed);
    std::fill_n(given.tensors, plan->listed, nullptr);
    for (size_t i = 0; i < plan->listed; ++i) given.tensors[plan->slots[i]] = listed[i];
  }
  return *plan;
}

std::string gradient_sentence(const Overload& overload, const Parameter& parameter) {
  return std::string(overload.of.name()) + ": '" + parameter.name +
         "' requires a gradient, and the operator has none; call it under torch.inference_mode() or "
         "torch.no_grad(), or pass '" +
         parameter.name + "' detached";
}

int64_t choice_of(const Overload& overload, const Parameter& parameter, std::string_view name) {
  const auto& choices = parameter.choices;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (name == choices[i]) return static_cast<int64_t>(i);
  }
  std::string known = choices.front();
  for (size_t i = 1; i < choices.size(); ++i)
    known += (i + 1 == choices.size() ? " or " : ", ") + std::string(choices[i]);
  fail(MOETUNE_INVALID_ARGUMENT, std::string(overload.of.name()) + ": " + parameter.name + " is '" + std::string(name) +
                                     "'; it must be " + known);
}

}  // namespace moetune::python
