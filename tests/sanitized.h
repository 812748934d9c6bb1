// Whether the build is instrumented. A sanitizer makes code several times slower and changes no result: what
// asks many runs how good a search is, or drives NVRTC over many architectures (which is not instrumented),
// asks few there.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
