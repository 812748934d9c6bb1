#include "tuner/process/error_tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace moetune {
namespace {

constexpr std::size_t kLongestTail = 2000;
constexpr int kMostReads = 256;  // of one drain(): a child that never stops writing must not hold its parent

}  // namespace

ErrorTail::ErrorTail(FileDescriptor pipe) : pipe_(std::move(pipe)) {
  if (pipe_.get() >= 0) fcntl(pipe_.get(), F_SETFL, O_NONBLOCK);
}

bool ErrorTail::drain() {
  std::array<char, 4096> chunk;
  for (int reads = 0; reads < kMostReads; ++reads) {
    const ssize_t got = read(pipe_.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got != 0;
    tail_.append(chunk.data(), static_cast<std::size_t>(got));
    if (tail_.size() > kLongestTail) tail_.erase(0, tail_.size() - kLongestTail);
  }
  return true;
}

std::string ErrorTail::words() const {
  std::string text = tail_;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', '|');
  return text;
}

}  // namespace moetune
