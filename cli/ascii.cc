#include "cli/ascii.h"

#include <langinfo.h>
#include <locale.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "base/environment.h"

namespace moetune {
namespace {

struct Likeness {
  std::string_view character, ascii;
};

// The characters that moetune itself prints, and those in names of models and authors.
constexpr Likeness kLikenesses[] = {{"µ", "u"},  {"μ", "u"},  {"×", "x"},  {"±", "+-"}, {"…", "..."},
                                    {"█", "#"},  {"·", "."},  {"–", "-"},  {"—", "-"},  {"−", "-"},
                                    {"’", "'"},  {"‘", "'"},  {"“", "\""}, {"”", "\""}, {"→", "->"},
                                    {"≤", "<="}, {"≥", ">="}, {"²", "2"},  {"³", "3"},  {"°", " deg"}};

bool names_utf8(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.find("utf-8") != std::string::npos || name.find("utf8") != std::string::npos;
}

}  // namespace

bool is_utf8_locale() {
  if (const locale_t locale = newlocale(LC_CTYPE_MASK, "", locale_t())) {
    const bool utf8 = names_utf8(nl_langinfo_l(CODESET, locale));
    freelocale(locale);
    return utf8;
  }
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const char* const value = environment_variable(name)) return names_utf8(value);
  }
  return false;
}

std::string to_ascii(std::string_view text) {
  std::string ascii;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ascii += text[at++];
      continue;
    }
    const auto like = std::find_if(std::begin(kLikenesses), std::end(kLikenesses),
                                   [&](const Likeness& one) { return text.substr(at).starts_with(one.character); });
    const bool known = like != std::end(kLikenesses);
    ascii += known ? like->ascii : "?";
    at += known ? like->character.size() : 1;
    while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
  }
  return ascii;
}

}  // namespace moetune
