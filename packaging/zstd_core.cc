// zstd's decoders for frames of its versions before 1.0, left out: packs and caches have none, and cache/file/blob.cc
// lets none through. They are 85 KB of the runtime. As these are defined here, each failing as zstd's own may, the
// linker leaves the decoders in libzstd.a.
#include <cstddef>

namespace {
constexpr std::size_t kGenericError = static_cast<std::size_t>(-1);
constexpr unsigned long long kUnknownSize = static_cast<unsigned long long>(-2);

void refuse_frame(std::size_t* compressed_size, unsigned long long* bound) {
  *compressed_size = kGenericError;
  *bound = kUnknownSize;
}
}  // namespace

#define MOETUNE_NO_DECODER(version)                                                                                  \
  void* ZSTD##version##_createDCtx() { return nullptr; }                                                             \
  std::size_t ZSTD##version##_freeDCtx(void*) { return 0; }                                                          \
  std::size_t ZSTD##version##_getFrameParams(void*, const void*, std::size_t) { return kGenericError; }              \
  std::size_t ZSTD##version##_decompress_usingDict(void*, void*, std::size_t, const void*, std::size_t, const void*, \
                                                   std::size_t) {                                                    \
    return kGenericError;                                                                                            \
  }                                                                                                                  \
  void ZSTD##version##_findFrameSizeInfoLegacy(const void*, std::size_t, std::size_t* compressed_size,               \
                                               unsigned long long* bound) {                                          \
    refuse_frame(compressed_size, bound);                                                                            \
  }                                                                                                                  \
  void* ZBUFF##version##_createDCtx() { return nullptr; }                                                            \
  std::size_t ZBUFF##version##_freeDCtx(void*) { return 0; }                                                         \
  std::size_t ZBUFF##version##_decompressInitDictionary(void*, const void*, std::size_t) { return kGenericError; }   \
  std::size_t ZBUFF##version##_decompressContinue(void*, void*, std::size_t*, const void*, std::size_t*) {           \
    return kGenericError;                                                                                            \
  }

extern "C" {
MOETUNE_NO_DECODER(v05)
MOETUNE_NO_DECODER(v06)
MOETUNE_NO_DECODER(v07)
}
