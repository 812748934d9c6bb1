#include "kernels/attention/options.h"

#include <algorithm>
#include <charconv>
#include <string>

namespace moetune {

AttentionOptions read_attention_options(const CallRules& rules, std::string_view text, AttentionOptions read) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    const std::string_view name = pair.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : pair.substr(equals + 1);
    if (name == "layout" && (value == "heads_first" || value == "tokens_first")) {
      read.heads_first = value == "heads_first";
    } else if (name == "scale") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), read.scale);
      if (error != std::errc() || end != value.data() + value.size() || !(read.scale > 0))
        rules.refuse("scale='" + std::string(value) + "' is not a positive number");
    } else if (name == "kv_settled" && read.kv_settled && (value == "0" || value == "1")) {
      read.kv_settled = value == "1";
    } else {
      rules.refuse("unknown option '" + std::string(pair) + "'; known are layout=heads_first, layout=tokens_first" +
                   (read.kv_settled ? ", scale=NUMBER, kv_settled=0 and kv_settled=1" : " and scale=NUMBER"));
    }
  }
  return read;
}

}  // namespace moetune
