// The part of an operator's call that decides how it is served: all but addresses. A server's layers pass tensors of
// equal shapes at every step, and reading those anew takes longer than launching, so each thread remembers the
// outcome of its last calls. For one thread; never fails.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>

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

  // A text that was seen in this thread is known by its address.
  void add_text(std::string_view text) {
    static thread_local std::set<std::string, std::less<>> seen;
    auto known = seen.find(text);
    if (known == seen.end() && seen.size() < kMostTexts) known = seen.emplace(text).first;
    is_complete_ = is_complete_ && known != seen.end();
    add(is_complete_ ? &*known : nullptr);
  }

  bool is_complete() const { return is_complete_; }  // there was room for all
  bool operator==(const CallSignature& other) const {
    return std::equal(words_, words_ + count_, other.words_, other.words_ + other.count_);
  }

 private:
  static constexpr int32_t kMaxRank = MOETUNE_MAX_RANK;
  static constexpr size_t kMostTexts = 4096;
  static constexpr size_t kMost =
      8 + std::tuple_size_v<decltype(Given::integers)> + MOETUNE_MAX_TENSORS * (5 + 2 * static_cast<size_t>(kMaxRank));

  int64_t words_[kMost];
  size_t count_ = 0;
  bool is_complete_ = true;
};

// The outcomes of the last calls, by signature. A server's layers take turns, so the one behind the last is looked at
// first.
template <typename Value>
class RecentCalls {
 public:
  Value* find(const CallSignature& signature) {
    for (size_t i = 0; signature.is_complete() && i < calls_.size(); ++i) {
      if (++last_ >= calls_.size()) last_ = 0;
      if (calls_[last_]->signature == signature) return &calls_[last_]->value;
    }
    return nullptr;
  }
  // In place of the oldest; of a signature that is not complete only until the next one.
  Value& add(const CallSignature& signature, Value value) {
    auto made = std::make_unique<Known>(signature, std::move(value));
    if (!signature.is_complete()) return (other_ = std::move(made))->value;
    if (calls_.size() < kMost) {
      calls_.push_back(std::move(made));
      return calls_.back()->value;
    }
    next_ = (next_ + 1) % kMost;
    return (calls_[next_] = std::move(made))->value;
  }

 private:
  static constexpr size_t kMost = 64;
  struct Known {
    CallSignature signature;
    Value value;
  };
  std::vector<std::unique_ptr<Known>> calls_;
  std::unique_ptr<Known> other_;
  size_t last_ = 0, next_ = kMost - 1;
};

}  // namespace moetune::python
