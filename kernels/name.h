// The name of a buffer, a kernel parameter or an entry point: at most 31 characters, held in place, so that
// what carries names can be filled without allocating. A plain value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace moetune {

class Name {
 public:
  static constexpr std::size_t kCapacity = 31;

  constexpr Name() = default;
  // Throws BadInput for a longer text.
  constexpr Name(std::string_view text) {
    if (text.size() > kCapacity) too_long(text);
    for (std::size_t i = 0; i < text.size(); ++i) text_[i] = text[i];
    text_[kCapacity] = static_cast<char>(text.size());
  }
  constexpr Name(const char* text) : Name(std::string_view(text)) {}
  Name(const std::string& text) : Name(std::string_view(text)) {}

  constexpr std::string_view view() const { return {text_, static_cast<std::size_t>(text_[kCapacity])}; }
  std::string text() const { return std::string(view()); }
  constexpr bool empty() const { return text_[kCapacity] == 0; }

  friend constexpr bool operator==(const Name& a, const Name& b) { return a.view() == b.view(); }

 private:
  [[noreturn]] static void too_long(std::string_view text) {
    throw BadInput("the name '" + std::string(text.substr(0, 60)) + "' is longer than 31 characters");
  }

  char text_[kCapacity + 1] = {};  // the last byte is the length
};

}  // namespace moetune
