#include "cache/file/blob.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace moetune {
namespace {

constexpr int kLevel = 3;                                   // a cubin of 100 KB takes under a millisecond
constexpr std::int64_t kLargest = std::int64_t{256} << 20;  // a cubin has a few MiB
constexpr std::array<std::uint8_t, 4> kFrameMagic = {0x28, 0xb5, 0x2f, 0xfd};

// zstd would also read frames of its versions before 1.0, by decoders that nobody looks after, and further frames
// behind the first.
bool is_one_frame(std::span<const std::uint8_t> frame) {
  return frame.size() > kFrameMagic.size() && std::equal(kFrameMagic.begin(), kFrameMagic.end(), frame.begin()) &&
         ZSTD_findFrameCompressedSize(frame.data(), frame.size()) == frame.size();
}

}  // namespace

std::vector<std::uint8_t> compress(std::span<const std::uint8_t> bytes) {
  std::vector<std::uint8_t> frame(ZSTD_compressBound(bytes.size()));
  const std::size_t written = ZSTD_compress(frame.data(), frame.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(written)) throw std::runtime_error(std::string("zstd: ") + ZSTD_getErrorName(written));
  frame.resize(written);
  return frame;
}

std::optional<std::vector<std::uint8_t>> decompress(std::span<const std::uint8_t> frame, std::int64_t size) {
  if (size < 0 || size > kLargest || !is_one_frame(frame)) return std::nullopt;
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != static_cast<std::uint64_t>(size)) return std::nullopt;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  const std::size_t read = ZSTD_decompress(bytes.data(), bytes.size(), frame.data(), frame.size());
  if (ZSTD_isError(read) || read != bytes.size()) return std::nullopt;
  return bytes;
}

}  // namespace moetune
