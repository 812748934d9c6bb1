// Whether the product is instrumented. A sanitizer makes code several times slower and changes no result: what
// asks many runs how good a search is, or drives NVRTC over many architectures (which is not instrumented),
// asks few there. ASan's builds do not instrument the tests, so that it is no macro; tests/paths.cc knows.
#pragma once

extern const bool kSanitized;
