// The words of a CUDA source, as far as finding a function's head needs them: comments and directives are left out, but
// for "#pragma kernel", whose words lie between two marks. A pure function; thread-safe. Errors: BadInput.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moetune {

struct CudaToken {
  enum class Kind { word, number, text, sign, begin, end };  // begin and end are of a pragma
  Kind kind = Kind::end;
  std::string text;
  std::size_t line = 1;

  bool is(std::string_view other) const { return text == other && (kind == Kind::word || kind == Kind::sign); }
};

std::vector<CudaToken> cuda_tokens(std::string_view text, const std::string& file);

}  // namespace moetune
