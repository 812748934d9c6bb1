// Memory between pages that cannot be touched. It ends where the second of them begins, but for its alignment: what is
// past the end by that or more faults. What was written nearer, or before the begin in its page, is found afterwards.
//
// Owns its mapping. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moetune::testing {

class GuardedMemory {
 public:
  // `bytes` of which the first is aligned to `alignment`, a power of two below a page. Throws std::bad_alloc.
  explicit GuardedMemory(std::size_t bytes, std::size_t alignment = 16);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept;
  GuardedMemory& operator=(GuardedMemory&&) = delete;

  std::uint8_t* data() const { return data_; }
  std::span<std::uint8_t> bytes() const { return {data_, bytes_}; }

  // Whether what lies between the bytes and the pages around is as it was.
  bool is_intact() const;
  void make_intact();
  // Whether the address is in here or in the pages around.
  bool is_near(const void* address) const;
  void allow_writing(bool allow);
  bool is_writable() const { return writable_; }
  // Whether any access faults, until it is shown again.
  void hide(bool hidden);

 private:
  std::uint8_t* mapping_;
  std::size_t mapped_;
  std::uint8_t* data_;
  std::size_t bytes_;
  bool writable_ = true, hidden_ = false;

  void protect();
};

}  // namespace moetune::testing
