// Messages between moetune and its child processes: a JSON header and binary blobs (sources, cubins, index
// arrays) over a stream socket.
//
// Frame: magic, header bytes, blob count (u32 each), then each blob's size (u64), the header, the blobs. Both
// ends run on one machine from one binary, so integers are in native order. A Channel owns its socket; one
// thread uses it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace moetune {

using Bytes = std::vector<std::uint8_t>;

struct Message {
  std::string header;  // JSON text
  std::vector<Bytes> blobs;
};

// The peer sent something else than a message: bad magic or a size over the limits. The channel is unusable then.
class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

class Channel {
 public:
  using Clock = std::chrono::steady_clock;
  using Deadline = std::optional<Clock::time_point>;  // nullopt: wait for ever

  enum class Status { done, closed, late, woken };

  // Another stream to keep reading while waiting (a child's stderr).
  struct Side {
    int fd = -1;
    std::function<void()> drain;  // called when fd is readable or at its end
  };

  explicit Channel(FileDescriptor socket);

  Status send(const Message& message, Deadline deadline);
  Status receive(Message& message, Deadline deadline);

  void set_side(Side side) { side_ = std::move(side); }
  void drop_side() { side_.fd = -1; }

  // Called once a wait lasts until then; nullopt: never. For the waits of one exchange.
  void set_notice(Deadline at, std::function<void()> notice) {
    notice_at_ = at;
    notice_ = std::move(notice);
  }

  // A descriptor that ends a wait with `woken` once it is readable; -1: none.
  void set_wake(int fd) { wake_ = fd; }

  static constexpr std::uint64_t kMaxHeader = 1ull << 30;
  static constexpr std::uint64_t kMaxBlobs = 4096;
  static constexpr std::uint64_t kMaxTotal = 1ull << 30;

 private:
  Status wait(short events, Deadline deadline);
  Status write_all(const void* data, std::size_t size, Deadline deadline);
  Status read_all(void* data, std::size_t size, Deadline deadline);

  FileDescriptor socket_;
  Side side_;
  int wake_ = -1;
  Deadline notice_at_;
  std::function<void()> notice_;
};

}  // namespace moetune
