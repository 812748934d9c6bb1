// The part of an operator's call that decides how it is served: all but addresses. A server's layers pass tensors of
// equal shapes at every step, and reading those anew takes longer than launching, so each thread remembers the
// outcome of its last calls. For one thread; never fails.
#pragma once

#include <algorithm>

#include "operator.h"

namespace moetune::python {

// Compared as words.
class CallSignature {
 public:
  void add(int64_t word) { words_[count_++] = word; }
  void add(const void* pointer) { add(reinterpret_cast<intptr_t>(pointer)); }
  void add_tensor(const DLTensor* tensor) {
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

  bool is_complete() const { return is_complete_; }  // there was room for all
  bool operator==(const CallSignature& other) const {
    return std::equal(words_, words_ + count_, other.words_, other.words_ + other.count_);
  }

 private:
  static constexpr int32_t kMaxRank = 4;
  static constexpr size_t kMost = 3 + std::tuple_size_v<decltype(FamilyKey::facts)> +
                                  MOETUNE_MAX_TENSORS * (5 + 2 * static_cast<size_t>(kMaxRank));

  int64_t words_[kMost];
  size_t count_ = 0;
  bool is_complete_ = true;
};

// The outcomes of the last calls, by signature.
template <typename Value>
class RecentCalls {
 public:
  const Value* find(const CallSignature& signature) const {
    if (!signature.is_complete()) return nullptr;
    const auto known = std::find_if(calls_.begin(), calls_.end(),
                                    [&](const Known& one) { return one.signature == signature; });
    return known != calls_.end() ? &known->value : nullptr;
  }
  void add(const CallSignature& signature, const Value& value) {
    if (!signature.is_complete()) return;
    calls_[next_] = {signature, value};
    next_ = (next_ + 1) % calls_.size();
  }

 private:
  struct Known {
    CallSignature signature;
    Value value{};
  };
  std::array<Known, 4> calls_{};
  size_t next_ = 0;
};

}  // namespace moetune::python
