#include "replay/compressed_file.h"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/regular_file.h"

namespace moetune {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;
constexpr std::size_t kMaxContent = std::size_t{512} << 20;  // far above any recording; a bomb stops here
constexpr std::size_t kMostMembers = 10'000;  // of a gzip file; those that are written in parallel have hundreds
constexpr int kZstdLevel = 12;

// Appends chunks that `fill` produces: it gets a buffer, the same each time, and gives back how much it wrote and
// whether that was the end.
struct Produced {
  std::size_t bytes = 0;
  bool at_end = false;
};

template <typename Fill>
std::string collect(std::string_view file, std::size_t enough, const Fill& fill) {
  std::string content, buffer(kChunk, '\0');
  for (bool at_end = false; !at_end && content.size() < enough;) {
    if (content.size() >= kMaxContent) throw BadInput(std::string(file) + ": its content is larger than 512 MiB");
    const Produced produced = fill(buffer.data(), buffer.size());
    content.append(buffer, 0, produced.bytes);
    at_end = produced.at_end;
  }
  return content;
}

std::string gunzip(std::string_view bytes, std::string_view file, std::size_t enough) {
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw BrokenEnvironment("zlib does not start: inflateInit2 failed");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end_of_scope(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::size_t members = 1;
  return collect(file, enough, [&](char* buffer, std::size_t size) -> Produced {
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = static_cast<uInt>(size);
    const int status = inflate(&stream, Z_NO_FLUSH);
    const std::size_t produced = size - stream.avail_out;
    if (status == Z_STREAM_END) {  // gzip files may be several members, one after another
      if (stream.avail_in == 0) return {produced, true};
      if (++members > kMostMembers)
        throw BadInput(std::string(file) + ": its gzip data have more than 10,000 members; compress it as one");
      inflateReset(&stream);
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status == Z_BUF_ERROR || (status == Z_OK && stream.avail_in == 0 && produced < size)) {
      throw BadInput(std::string(file) + ": the gzip data end too early");
    } else if (status != Z_OK) {
      throw BadInput(std::string(file) + ": damaged gzip data" +
                     (stream.msg != nullptr ? ": " + std::string(stream.msg) : ""));
    }
    return {produced, false};
  });
}

std::string unzstd(std::string_view bytes, std::string_view file, std::size_t enough) {
  const std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  ZSTD_inBuffer input = {bytes.data(), bytes.size(), 0};
  return collect(file, enough, [&](char* buffer, std::size_t size) -> Produced {
    ZSTD_outBuffer output = {buffer, size, 0};
    const std::size_t status = ZSTD_decompressStream(context.get(), &output, &input);
    if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (ZSTD_isError(status)) {
      throw BadInput(std::string(file) + ": damaged zstd data: " + ZSTD_getErrorName(status));
    }
    const bool consumed = input.pos == input.size;
    if (consumed && status != 0 && output.pos < output.size) {
      throw BadInput(std::string(file) + ": the zstd data end too early");
    }
    return {output.pos, consumed && status == 0};
  });
}

}  // namespace

std::string read_whole_file(const std::filesystem::path& path) { return read_regular_file(path, kMaxContent); }

std::string decompress(std::string_view bytes, std::string_view file, std::size_t enough) {
  if (bytes.starts_with("\x1f\x8b")) return gunzip(bytes, file, enough);
  if (bytes.starts_with("\x28\xb5\x2f\xfd")) return unzstd(bytes, file, enough);
  return std::string(bytes);
}

std::string compress_zstd(std::string_view content) {
  std::string bytes(ZSTD_compressBound(content.size()), '\0');
  const std::size_t size = ZSTD_compress(bytes.data(), bytes.size(), content.data(), content.size(), kZstdLevel);
  if (ZSTD_isError(size)) throw BrokenEnvironment(std::string("zstd cannot compress: ") + ZSTD_getErrorName(size));
  bytes.resize(size);
  return bytes;
}

}  // namespace moetune
