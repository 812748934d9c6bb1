#include "bound_call.h"

#include <algorithm>

namespace moetune::python {
namespace {

// What binding depends on: the family, its options, and all of a tensor but its address. Compared as words.
class Signature {
 public:
  Signature() = default;
  Signature(const FamilyKey& key, const Given& given, const char* options) {
    add(reinterpret_cast<intptr_t>(key.of));
    add(key.device);
    for (const int64_t fact : key.facts) add(fact);
    add(reinterpret_cast<intptr_t>(options));
    for (size_t slot = 0; slot < key.of->tensor_count(); ++slot) add(given.tensors[slot]);
  }

  bool is_complete() const { return is_complete_; }
  bool operator==(const Signature& other) const {
    return std::equal(words_, words_ + count_, other.words_, other.words_ + other.count_);
  }

 private:
  static constexpr int32_t kMaxRank = 4;
  static constexpr size_t kMost = 3 + std::tuple_size_v<decltype(FamilyKey::facts)> +
                                  MOETUNE_MAX_TENSORS * (5 + 2 * static_cast<size_t>(kMaxRank));

  void add(int64_t word) { words_[count_++] = word; }

  void add(const DLTensor* tensor) {
    if (tensor == nullptr) return add(-1);  // no tensor has such a rank
    add(tensor->ndim);
    add(number_of(tensor->dtype));
    add(int64_t{tensor->device.device_type} << 32 | tensor->device.device_id);
    add(static_cast<int64_t>(tensor->byte_offset));
    add(tensor->strides != nullptr);
    is_complete_ = is_complete_ && tensor->ndim >= 0 && tensor->ndim <= kMaxRank;
    if (!is_complete_) return;
    for (int32_t d = 0; d < tensor->ndim; ++d) {
      add(tensor->shape[d]);
      if (tensor->strides != nullptr) add(tensor->strides[d]);
    }
  }

  int64_t words_[kMost];
  size_t count_ = 0;
  bool is_complete_ = true;  // there was room for all
};

// The calls of a thread that came last.
class RecentCalls {
 public:
  const BoundCall* find(const Signature& signature) const {
    const auto known = std::find_if(calls_.begin(), calls_.end(),
                                    [&](const Known& one) { return one.signature == signature; });
    return known != calls_.end() ? &known->call : nullptr;
  }
  void add(const Signature& signature, const BoundCall& call) {
    calls_[next_] = {signature, call};
    next_ = (next_ + 1) % calls_.size();
  }

 private:
  struct Known {
    Signature signature;
    BoundCall call;
  };
  std::array<Known, 4> calls_{};
  size_t next_ = 0;
};

void* address_of(const DLTensor* tensor) {
  if (tensor == nullptr || tensor->data == nullptr) return nullptr;
  return static_cast<char*>(tensor->data) + tensor->byte_offset;
}

}  // namespace

BoundCall bind_call(const FamilyKey& key, const Given& given, moetune_family* family) {
  static thread_local RecentCalls recent;
  const char* const options = key.of->bind_options(given);
  const size_t tensors = key.of->tensor_count();
  const Signature signature(key, given, options);
  if (const BoundCall* const known = signature.is_complete() ? recent.find(signature) : nullptr) {
    BoundCall call = *known;
    for (size_t slot = 0; slot < tensors; ++slot)
      call.arguments.tensors[slot] = address_of(given.tensors[slot]);
    return call;
  }
  BoundCall call;
  key.of->check(moetune_bind(family, given.tensors, tensors, options, &call.arguments,
                             call.most.values.data(), &call.most.count));
  if (signature.is_complete()) recent.add(signature, call);
  return call;
}

}  // namespace moetune::python
