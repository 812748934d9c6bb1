#include "cli/output.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <streambuf>

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

Output::Output(bool json)
    : json_(json),
      result_(std::make_unique<Escaping>(json ? std::cerr : std::cout)),
      notes_(std::make_unique<Escaping>(std::cerr)) {}

Output::~Output() = default;

std::ostream& Output::result() const { return result_->stream(); }

std::ostream& Output::notes() const { return notes_->stream(); }

void Output::note(const std::string& sentence) const { std::cerr << escape_controls(sentence) << std::endl; }

std::ostream& Output::terminal() const { return std::cerr; }

void Output::document(const nlohmann::ordered_json& document) {
  if (!json_ || written_) return;
  written_ = true;
  // Compiler messages may hold any bytes: a document with replacement characters beats none.
  std::cout << document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

void Output::finish() const {
  std::cout.flush();
  if (!std::cout) throw BrokenEnvironment("standard output could not be written: is the disk full?");
}

}  // namespace moetune
