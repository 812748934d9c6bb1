#include "tests/simt/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace moetune::testing {
namespace {

constexpr std::uint8_t kCanary = 0xA5;
constexpr std::size_t kGuardPages = 16;  // strides past the end are seldom one page

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t guard_bytes() { return kGuardPages * page_bytes(); }

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes, std::size_t alignment) : bytes_(bytes) {
  const std::size_t inner = round_up(bytes, page_bytes());
  mapped_ = inner + 2 * guard_bytes();
  void* mapping = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::uint8_t*>(mapping);
  if (inner > 0) ::mprotect(mapping_ + guard_bytes(), inner, PROT_READ | PROT_WRITE);
  data_ = mapping_ + guard_bytes() + inner - round_up(bytes, alignment);
  make_intact();
}

GuardedMemory::~GuardedMemory() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_);
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapped_(other.mapped_),
      data_(other.data_),
      bytes_(other.bytes_),
      writable_(other.writable_),
      hidden_(other.hidden_) {}

void GuardedMemory::make_intact() {
  std::fill(mapping_ + guard_bytes(), data_, kCanary);
  std::fill(data_ + bytes_, mapping_ + mapped_ - guard_bytes(), kCanary);
}

bool GuardedMemory::is_intact() const {
  const auto is_canary = [](std::uint8_t byte) { return byte == kCanary; };
  return std::all_of(mapping_ + guard_bytes(), data_, is_canary) &&
         std::all_of(data_ + bytes_, mapping_ + mapped_ - guard_bytes(), is_canary);
}

bool GuardedMemory::is_near(const void* address) const {
  const auto* byte = static_cast<const std::uint8_t*>(address);
  return byte >= mapping_ && byte < mapping_ + mapped_;
}

void GuardedMemory::allow_writing(bool allow) {
  if (allow == writable_) return;
  writable_ = allow;
  protect();
}

void GuardedMemory::hide(bool hidden) {
  if (hidden == hidden_) return;
  hidden_ = hidden;
  protect();
}

void GuardedMemory::protect() {
  const std::size_t inner = mapped_ - 2 * guard_bytes();
  if (inner == 0) return;
  const int shown = writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
  ::mprotect(mapping_ + guard_bytes(), inner, hidden_ ? PROT_NONE : shown);
}

}  // namespace moetune::testing
