#include "tests/runtime/opened.h"

#include <cstdlib>

#include "tests/runtime/fake_cache.h"

namespace moetune::testing {

bool says(const std::string& words) { return std::string(moetune_last_error()).find(words) != std::string::npos; }

Opened::Opened(const std::vector<std::filesystem::path>& paths, bool allow_recorded) {
  fake_device();
  std::vector<std::string> texts;
  for (const std::filesystem::path& path : paths) texts.push_back(path.string());
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const moetune_open_options options{sizeof options, pointers.data(), pointers.size(), 0, allow_recorded};
  REQUIRE_OK(moetune_open(&options, &runtime_));
}

moetune_family* Opened::family(const char* specialization) const {
  moetune_family* family = nullptr;
  REQUIRE_OK(moetune_family_open(runtime_, "decode_attention", specialization, &family));
  return family;
}

std::string Opened::generation() const {
  char text[33];
  REQUIRE_OK(moetune_generation(runtime_, text));
  return text;
}

std::string Opened::warnings() const {
  std::size_t needed = 0;
  REQUIRE_OK(moetune_warnings(runtime_, nullptr, 0, &needed));
  std::string text(needed, '\0');
  REQUIRE_OK(moetune_warnings(runtime_, text.data(), text.size(), nullptr));
  return text;
}

nlohmann::json Opened::explain(moetune_family* family, const moetune_choice& choice) const {
  std::string text(8192, '\0');
  REQUIRE_OK(moetune_explain(family, &choice, text.data(), text.size(), nullptr));
  return nlohmann::json::parse(text.c_str());
}

}  // namespace moetune::testing
