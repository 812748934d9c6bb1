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

namespace moetune {

// A stream without a buffer of its own: each piece goes to the stream behind it at once, whose state tells of failures.
class Output::Escaping : private std::streambuf {
 public:
  explicit Escaping(std::ostream& to) : to_(to), stream_(this) {}
  std::ostream& stream() { return stream_; }

 private:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::string safe = escape_controls({text, static_cast<std::size_t>(size)});
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
  std::ostream stream_;
};

namespace {

// A stream that drops what it gets: one without a buffer.
std::ostream& nowhere() {
  static std::ostream stream(nullptr);
  return stream;
}

std::ostream& people_stream(bool json) {
  if (!json) return std::cout;
  return isatty(STDOUT_FILENO) == 1 && isatty(STDERR_FILENO) == 1 ? nowhere() : std::cerr;
}

std::ostream& notes_stream(bool json) { return json ? people_stream(true) : std::cerr; }

}  // namespace

Output::Output(bool json)
    : json_(json),
      result_(std::make_unique<Escaping>(people_stream(json))),
      notes_(std::make_unique<Escaping>(notes_stream(json))) {}

Output::~Output() = default;

std::ostream& Output::result() const { return result_->stream(); }

std::ostream& Output::notes() const { return notes_->stream(); }

void Output::note(const std::string& sentence) const {
  // One piece, so that notes of several threads do not mix.
  notes_stream(json_) << escape_controls(sentence) + "\n" << std::flush;
}

std::size_t Output::columns() const {
  if (wide_) return 0;
  const char* const set = environment_variable("COLUMNS");
  std::size_t columns = 0;
  if (set != nullptr && std::from_chars(set, set + std::strlen(set), columns).ec == std::errc() &&
      columns > 0)
    return columns;
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::size_t Output::page_columns() const {
  constexpr std::size_t kPage = 80;
  const std::size_t columns = this->columns();
  return columns == 0 && !wide_ ? kPage : columns;
}

bool Output::colours() const {
  const char* const term = environment_variable("TERM");
  const bool dumb = term == nullptr || std::strcmp(term, "dumb") == 0;
  return !json_ && !dumb && environment_variable("NO_COLOR") == nullptr && isatty(STDOUT_FILENO) == 1;
}

std::ostream& Output::painted() const { return people_stream(json_); }

std::ostream& Output::terminal() const { return std::cerr; }

void Output::document(const nlohmann::ordered_json& document) {
  if (!json_ || written_) return;
  written_ = true;
  // Compiler messages may hold any bytes: a document with replacement characters beats none.
  std::cout << escape_json_controls(
                   document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace))
            << "\n";
}

void Output::finish() const {
  std::cout.flush();
  if (!std::cout) throw BrokenEnvironment("standard output could not be written: is the disk full?");
}

}  // namespace moetune
