#include "tuner/process/protocol.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace moetune {
namespace {

constexpr std::uint32_t kMagic = 0x4D54554E;  // "MTUN"

struct FrameHead {
  std::uint32_t magic = kMagic;
  std::uint32_t header_bytes = 0;
  std::uint32_t blobs = 0;
};

int milliseconds_left(Channel::Deadline deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Channel::Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000'000));
}

bool peer_is_gone(int error) { return error == EPIPE || error == ECONNRESET; }

void require_within_limits(const std::vector<std::uint64_t>& sizes) {
  std::uint64_t total = 0;
  for (const std::uint64_t size : sizes) {
    if (size > Channel::kMaxTotal)
      throw ProtocolError("a blob of " + std::to_string(size) + " bytes is over the limit");
    total += size;
  }
  if (total > Channel::kMaxTotal)
    throw ProtocolError("blobs of " + std::to_string(total) + " bytes are over the limit");
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

Channel::Channel(FileDescriptor socket) : socket_(std::move(socket)) {
  const int flags = fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) < 0) {
    throw std::system_error(errno, std::generic_category(),
                            "a child process's channel on descriptor " + std::to_string(socket_.get()));
  }
}

Channel::Status Channel::wait(short events, Deadline deadline) {
  while (true) {
    std::array<pollfd, 3> fds = {{{socket_.get(), events, 0}, {side_.fd, POLLIN, 0}, {wake_, POLLIN, 0}}};
    const bool notices = notice_at_ && (!deadline || *notice_at_ < *deadline);
    const int ready = poll(fds.data(), fds.size(), milliseconds_left(notices ? notice_at_ : deadline));
    if (ready < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "poll");
    if (ready == 0 && !notices) return Status::late;
    if (ready == 0) {
      notice_at_.reset();
      notice_();
      continue;
    }
    if (ready < 0) continue;
    if (side_.fd >= 0 && fds[1].revents != 0) side_.drain();
    if (wake_ >= 0 && fds[2].revents != 0) return Status::woken;
    if (fds[0].revents != 0) return Status::done;
  }
}

Channel::Status Channel::write_all(const void* data, std::size_t size, Deadline deadline) {
  const auto* at = static_cast<const std::uint8_t*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(socket_.get(), at, size, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent;
      size -= static_cast<std::size_t>(sent);
    } else if (sent < 0 && peer_is_gone(errno)) {
      return Status::closed;
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (const Status status = wait(POLLOUT, deadline); status != Status::done) return status;
    } else if (sent < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "sending to a child process's channel");
    }
  }
  return Status::done;
}

Channel::Status Channel::read_all(void* data, std::size_t size, Deadline deadline) {
  auto* at = static_cast<std::uint8_t*>(data);
  while (size > 0) {
    const ssize_t got = ::recv(socket_.get(), at, size, 0);
    if (got > 0) {
      at += got;
      size -= static_cast<std::size_t>(got);
    } else if (got == 0 || peer_is_gone(errno)) {
      return Status::closed;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (const Status status = wait(POLLIN, deadline); status != Status::done) return status;
    } else if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "receiving from a child process's channel");
    }
  }
  return Status::done;
}

Channel::Status Channel::send(const Message& message, Deadline deadline) {
  FrameHead head;
  head.header_bytes = static_cast<std::uint32_t>(message.header.size());
  head.blobs = static_cast<std::uint32_t>(message.blobs.size());
  std::vector<std::uint64_t> sizes;
  for (const Bytes& blob : message.blobs) sizes.push_back(blob.size());
  if (message.header.size() > kMaxHeader || sizes.size() > kMaxBlobs)
    throw ProtocolError("a message is over the limit");
  require_within_limits(sizes);

  Status status = write_all(&head, sizeof head, deadline);
  if (status == Status::done) status = write_all(sizes.data(), sizes.size() * sizeof(std::uint64_t), deadline);
  if (status == Status::done) status = write_all(message.header.data(), message.header.size(), deadline);
  for (const Bytes& blob : message.blobs) {
    if (status == Status::done) status = write_all(blob.data(), blob.size(), deadline);
  }
  return status;
}

Channel::Status Channel::receive(Message& message, Deadline deadline) {
  FrameHead head;
  if (const Status status = read_all(&head, sizeof head, deadline); status != Status::done) return status;
  if (head.magic != kMagic) throw ProtocolError("not a moetune message (bad magic)");
  if (head.header_bytes > kMaxHeader || head.blobs > kMaxBlobs) throw ProtocolError("a message is over the limit");

  std::vector<std::uint64_t> sizes(head.blobs);
  Status status = read_all(sizes.data(), sizes.size() * sizeof(std::uint64_t), deadline);
  if (status != Status::done) return status;
  require_within_limits(sizes);

  message.header.assign(head.header_bytes, '\0');
  message.blobs.clear();
  status = read_all(message.header.data(), message.header.size(), deadline);
  for (const std::uint64_t size : sizes) {
    if (status != Status::done) break;
    status = read_all(message.blobs.emplace_back(size).data(), size, deadline);
  }
  return status;
}

}  // namespace moetune
