// The name of a buffer or a kernel parameter, of at most 31 characters, or of an entry point, of at most 63: held in
// place, so that what carries names can be filled without allocating. A plain value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"

namespace moetune {

template <std::size_t Capacity>
class ShortText {
 public:
  static constexpr std::size_t kCapacity = Capacity;

  constexpr ShortText() = default;
  // Throws BadInput for a longer text.
  constexpr ShortText(std::string_view text) {
    if (text.size() > kCapacity) too_long(text);
    for (std::size_t i = 0; i < text.size(); ++i) text_[i] = text[i];
    text_[kCapacity] = static_cast<char>(text.size());
  }
  constexpr ShortText(const char* text) : ShortText(std::string_view(text)) {}
  ShortText(const std::string& text) : ShortText(std::string_view(text)) {}

  constexpr std::string_view view() const { return {text_, static_cast<std::size_t>(text_[kCapacity])}; }
  std::string text() const { return std::string(view()); }
  constexpr bool empty() const { return text_[kCapacity] == 0; }

  friend constexpr bool operator==(const ShortText& a, const ShortText& b) { return a.view() == b.view(); }

 private:
  [[noreturn]] static void too_long(std::string_view text) {
    throw BadInput("the name '" + std::string(text.substr(0, 60)) + "' is longer than " + std::to_string(kCapacity) +
                   " characters");
  }

  char text_[kCapacity + 1] = {};  // the last byte is the length
};

using Name = ShortText<31>;
using EntryName = ShortText<63>;

}  // namespace moetune
