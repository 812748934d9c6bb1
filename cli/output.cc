#include "cli/output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <streambuf>

#include "base/environment.h"
#include "base/error.h"
#include "base/utf8.h"
#include "cli/ascii.h"

namespace moetune {
namespace {

std::string filtered(std::string_view text, bool escapes, bool ascii) {
  std::string safe = escapes ? escape_controls(text) : std::string(text);
  return ascii ? to_ascii(safe) : safe;
}

}  // namespace

// A stream without a buffer of its own: each piece goes to the stream behind it at once, whose state tells of failures.
class Output::Filtered : private std::streambuf {
 public:
  Filtered(std::ostream& to, bool escapes, bool ascii) : to_(to), escapes_(escapes), ascii_(ascii), stream_(this) {}
  std::ostream& stream() { return stream_; }

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::string safe = filtered({text, static_cast<std::size_t>(size)}, escapes_, ascii_);
    to_.write(safe.data(), static_cast<std::streamsize>(safe.size()));
    return to_ ? size : 0;
  }
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char byte = traits_type::to_char_type(c);
    return xsputn(&byte, 1) == 1 ? c : traits_type::eof();
  }
  int sync() override { return to_.flush() ? 0 : -1; }

  std::ostream& to_;
  const bool escapes_, ascii_;
  std::ostream stream_;
};

namespace {

// A stream that drops what it gets: one without a buffer.
std::ostream& nowhere() {
  static std::ostream stream(nullptr);
  return stream;
}

std::ostream& result_stream(bool json) { return json ? nowhere() : std::cout; }

std::ostream& error_stream(bool json) {
  const bool would_mix = json && isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
  return would_mix ? nowhere() : std::cerr;
}

std::size_t width_of_screen() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

Output::Output(bool json)
    : json_(json),
      screen_(isatty(STDOUT_FILENO) == 1),
      ascii_(!is_utf8_locale()),
      screen_columns_(width_of_screen()),
      result_(std::make_unique<Filtered>(result_stream(json), true, ascii_)),
      painted_(std::make_unique<Filtered>(result_stream(json), false, ascii_)),
      errors_(std::make_unique<Filtered>(error_stream(json), true, ascii_)),
      terminal_(std::make_unique<Filtered>(std::cerr, false, ascii_)) {}

Output::~Output() = default;

std::ostream& Output::result() const { return result_->stream(); }

std::ostream& Output::painted() const { return painted_->stream(); }

std::ostream& Output::data() const { return result_stream(json_); }

std::ostream& Output::errors() const { return errors_->stream(); }

std::ostream& Output::terminal() const { return is_quiet() ? nowhere() : terminal_->stream(); }

void Output::note(const std::string& sentence) const {
  if (!is_quiet()) warn(sentence);
}

void Output::warn(const std::string& sentence) const {
  // One piece, so that lines of several threads do not mix.
  error_stream(json_) << filtered(sentence, true, ascii_) + "\n" << std::flush;
}

std::size_t Output::columns() const {
  if (wide_) return 0;
  const char* const set = environment_variable("COLUMNS");
  std::size_t columns = 0;
  if (set != nullptr && std::from_chars(set, set + std::strlen(set), columns).ec == std::errc() && columns > 0)
    return columns;
  return screen_columns_;
}

std::size_t Output::page_columns() const {
  constexpr std::size_t kPage = 80;
  const std::size_t columns = this->columns();
  return columns == 0 && !wide_ ? kPage : columns;
}

bool Output::colours() const {
  if (json_ || colour_ == Colour::never) return false;
  if (colour_ == Colour::always) return true;
  const char* const term = environment_variable("TERM");
  const bool dumb = term == nullptr || std::strcmp(term, "dumb") == 0;
  return !dumb && environment_variable("NO_COLOR") == nullptr && screen_;
}

void Output::document(const nlohmann::ordered_json& document) {
  if (!json_ || written_) return;
  written_ = true;
  // Compiler messages may hold any bytes: a document with replacement characters beats none.
  std::cout << escape_json_controls(document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
            << "\n";
}

void Output::finish() const {
  std::cout.flush();
  if (!std::cout) throw BrokenEnvironment("standard output could not be written: is the disk full?");
}

}  // namespace moetune
