// The destination of all text. Without --json a command's result is for people and goes to stdout. With --json stdout
// carries exactly one JSON document, and stderr only warnings and errors. Otherwise stderr has notes and progress as
// well, unless --quiet is given. If both streams share a terminal under --json, only the document is printed.
//
// Names and docs come from files of somebody else: control characters are escaped on their way, except in a document,
// where JSON does so, and in painted(), terminal() and data(). Where the locale does not write UTF-8, all but documents
// and data() is ASCII.
//
// One Output a process, owned by the command line; single-threaded except for note() and warn().
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

namespace moetune {

enum class Colour { automatic, always, never };

class Output {
 public:
  explicit Output(bool json);
  ~Output();
  Output(const Output&) = delete;

  bool json() const { return json_; }

  void set_quiet() { quiet_ = true; }
  // Whether nobody wants notes and progress.
  bool is_quiet() const { return quiet_ || json_; }

  // Tables fit the screen and problems are short, unless set_wide() said otherwise: the screen's columns, or 0 if
  // stdout is no terminal. The variable COLUMNS overrules both.
  void set_wide() { wide_ = true; }
  bool is_wide() const { return wide_; }
  std::size_t columns() const;
  // As columns(), but 80 if stdout is no terminal: for pages that are made to be read.
  std::size_t page_columns() const;
  // Whether a person looks at the result on a terminal.
  bool has_screen() const { return screen_ && !json_; }

  // Automatic: whether stdout is a terminal that shows colours, and NO_COLOR is not set (no-color.org).
  void set_colour(Colour colour) { colour_ = colour; }
  bool colours() const;

  std::ostream& result() const;    // the answer, for people
  std::ostream& painted() const;   // the same unescaped: colours, and text that is escaped already
  std::ostream& data() const;      // an answer that a program reads though nobody said --json: unchanged
  std::ostream& errors() const;    // stderr, whatever is quiet
  std::ostream& terminal() const;  // stderr with control sequences, for numbers and words of our own; nowhere if quiet
  // One line on stderr: progress (note), which --quiet and --json leave out, or news that a reader must see (warn).
  void note(const std::string& sentence) const;
  void warn(const std::string& sentence) const;

  // The answer for programs. Does nothing without --json, nor after the first: what fails later is a warning.
  void document(const nlohmann::ordered_json& document);

  // Ends the output. Throws BrokenEnvironment where stdout could not take all of it.
  void finish() const;

 private:
  class Filtered;

  const bool json_, screen_, ascii_;
  const std::size_t screen_columns_;
  bool wide_ = false, quiet_ = false;
  Colour colour_ = Colour::automatic;
  std::unique_ptr<Filtered> result_, painted_, errors_, terminal_;
  bool written_ = false;
};

}  // namespace moetune
