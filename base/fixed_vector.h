// A vector of at most N trivially copyable elements, held in place, itself trivially copyable. Making and
// filling one allocates nothing, and touches no more memory than its elements take.
//
// A plain value; as thread-safe as an array. Growing past N throws std::length_error.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace moetune {

template <typename T, std::size_t N>
class FixedVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  using value_type = T;

  FixedVector() noexcept {}  // the storage stays as it is
  FixedVector(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }

  static constexpr std::size_t capacity() { return N; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }

  T& push_back(const T& item) {
    check_room();
    return *std::construct_at(data() + size_++, item);
  }
  T& emplace_back() {
    check_room();
    return *std::construct_at(data() + size_++);
  }

  T* data() { return reinterpret_cast<T*>(storage_); }
  const T* data() const { return reinterpret_cast<const T*>(storage_); }
  T& operator[](std::size_t index) { return data()[index]; }
  const T& operator[](std::size_t index) const { return data()[index]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }

  bool operator==(const FixedVector& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  auto operator<=>(const FixedVector& other) const {
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(), other.end());
  }

 private:
  void check_room() const {
    if (size_ == N) throw std::length_error("a fixed vector of " + std::to_string(N) + " elements is full");
  }

  alignas(T) std::byte storage_[N * sizeof(T)];
  std::size_t size_ = 0;
};

}  // namespace moetune
