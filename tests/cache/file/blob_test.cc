#include "cache/file/blob.h"

#include <doctest/doctest.h>

#include "tests/cache/support.h"

using Bytes = std::vector<std::uint8_t>;
using moetune::compress;
using moetune::decompress;

TEST_CASE("bytes come back from their frame, none and many") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{300'000}}) {
    const Bytes bytes = cache_test::random_bytes(size, size);
    CHECK(decompress(compress(bytes), static_cast<std::int64_t>(size)) == bytes);
  }
  CHECK(compress(Bytes(100'000, 7)).size() < 1000);
}

TEST_CASE("a frame of another size, a cut one and no frame at all are refused") {
  const Bytes bytes(1000, 3), frame = compress(bytes);
  CHECK_FALSE(decompress(frame, 999));
  CHECK_FALSE(decompress(frame, 1001));
  CHECK_FALSE(decompress(frame, -1));
  CHECK_FALSE(decompress(frame, std::int64_t{1} << 40));
  CHECK_FALSE(decompress(std::span(frame).first(frame.size() - 1), 1000));
  CHECK_FALSE(decompress({}, 0));
  CHECK_FALSE(decompress(bytes, 1000));
}

TEST_CASE("a second frame behind the first is refused") {
  Bytes frame = compress(Bytes(1000, 3));
  const Bytes second = compress({});
  frame.insert(frame.end(), second.begin(), second.end());
  CHECK_FALSE(decompress(frame, 1000));
}

TEST_CASE("a frame of zstd 0.7 is refused") {
  // Magic number; content size in a byte, 5; an uncompressed block of 5 bytes; the end.
  const Bytes frame = {0x27, 0xb5, 0x2f, 0xfd, 0x20, 5, 0x40, 0, 5, 1, 2, 3, 4, 5, 0xc0, 0, 0};
  CHECK_FALSE(decompress(frame, 5));
}
