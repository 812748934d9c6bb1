#include "replay/cuda_tokens.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/utf8.h"

namespace moetune {
namespace {

constexpr std::size_t kMostWords = 1 << 20;

bool is_word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

class CudaScanner {
 public:
  CudaScanner(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  std::vector<CudaToken> scan() {
    bool is_first = true;  // on its line
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        end_line();
        is_first = true;
      } else if (starts("\\\n") || starts("\\\r\n")) {
        at_ += text_[at_ + 1] == '\r' ? 2 : 1;
        ++line_, ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c))) {
        ++at_;
      } else if (starts("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (starts("/*")) {
        skip_comment();
      } else if (c == '#' && is_first) {
        begin_directive();
      } else {
        read_token();
        is_first = false;
      }
    }
    end_line();
    return std::move(tokens_);
  }

 private:
  bool starts(std::string_view word) const { return text_.substr(at_).starts_with(word); }

  void add(CudaToken::Kind kind, std::string_view text) {
    if (tokens_.size() == kMostWords) throw BadInput(file_ + " has more than 1,048,576 words");
    if (in_pragma_ && !is_utf8(text))  // a letter beyond ASCII in a name, too
      throw BadInput(file_ + ":" + std::to_string(line_) + ": a text of a #pragma is not UTF-8");
    tokens_.push_back({kind, std::string(text), line_});
  }

  void end_line() {
    if (in_pragma_) add(CudaToken::Kind::end, "");
    in_pragma_ = false;
    ++line_, ++at_;
  }

  void skip_comment() {
    const std::size_t end = text_.find("*/", at_ + 2);
    const std::size_t behind = end == std::string_view::npos ? text_.size() : end + 2;
    line_ += static_cast<std::size_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                 text_.begin() + static_cast<std::ptrdiff_t>(behind), '\n'));
    at_ = behind;
  }

  std::string_view next_word() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word_part(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Leaves the words of a "#pragma kernel" to be read, and skips any other directive.
  void begin_directive() {
    ++at_;
    if (next_word() == "pragma") {
      const std::string_view word = next_word();
      if (word == "kernel" || word == "kernel_tuner") {
        in_pragma_ = true;
        return add(CudaToken::Kind::begin, "");
      }
    }
    while (at_ < text_.size() && text_[at_] != '\n') {
      const bool goes_on = starts("\\\n") || starts("\\\r\n");
      if (goes_on) at_ = text_.find('\n', at_), ++line_;
      ++at_;
    }
  }

  void read_token() {
    const char c = text_[at_];
    const std::size_t begin = at_++;
    auto kind = CudaToken::Kind::sign;
    if (c == '"' || c == '\'') {
      for (; at_ < text_.size() && text_[at_] != c && text_[at_] != '\n'; ++at_)
        if (text_[at_] == '\\') ++at_;
      const std::string_view text = text_.substr(begin + 1, std::min(at_, text_.size()) - begin - 1);
      add(CudaToken::Kind::text, text);
      if (at_ < text_.size() && text_[at_] == c) ++at_;
      at_ = std::min(at_, text_.size());
      return;
    }
    if (is_word_part(c)) {
      kind = std::isdigit(static_cast<unsigned char>(c)) ? CudaToken::Kind::number : CudaToken::Kind::word;
      while (at_ < text_.size() && is_word_part(text_[at_])) ++at_;
    } else {
      for (const char* const sign : {"::", "<=", ">=", "==", "!=", "&&", "||"})
        if (text_.substr(begin).starts_with(sign)) at_ = begin + 2;
    }
    add(kind, text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<CudaToken> tokens_;
  std::size_t at_ = 0, line_ = 1;
  bool in_pragma_ = false;
};

}  // namespace

std::vector<CudaToken> cuda_tokens(std::string_view text, const std::string& file) {
  return CudaScanner(text, file).scan();
}

}  // namespace moetune
