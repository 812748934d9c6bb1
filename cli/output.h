// Where text goes. Without --json a command's result is for people and goes to stdout. With --json stdout
// carries exactly one JSON document and everything for people goes to stderr; on a terminal, where both would stand
// among each other, only the document is printed. Notes always go to stderr.
//
// Names and docs come from files of somebody else: control characters are escaped on their way, except in a
// document, where JSON does so, and in terminal().
//
// One Output a process, owned by the command line; single-threaded.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

namespace moetune {

class Output {
 public:
  explicit Output(bool json);
  ~Output();
  Output(const Output&) = delete;

  bool json() const { return json_; }

  // Tables are to fit the screen, unless set_wide() said otherwise: its columns, or 0 if stdout is no terminal. The
  // variable COLUMNS overrules both.
  void set_wide() { wide_ = true; }
  std::size_t columns() const;
  // As columns(), but 80 if stdout is no terminal: for pages that are made to be read.
  std::size_t page_columns() const;

  // Whether stdout is a terminal that shows colours, and NO_COLOR is not set (no-color.org).
  bool colours() const;

  std::ostream& result() const;   // the answer, for people
  std::ostream& painted() const;  // the same unescaped: colours, and text that is escaped already
  std::ostream& notes() const;    // banners, warnings
  void note(const std::string& sentence) const;  // one line of notes(); from any thread
  std::ostream& terminal() const;  // notes() with control sequences, for numbers and words of our own

  // The answer for programs. Does nothing without --json, nor after the first: what fails later is a note.
  void document(const nlohmann::ordered_json& document);

  // Ends the output. Throws BrokenEnvironment where stdout could not take all of it.
  void finish() const;

 private:
  class Escaping;

  bool json_, wide_ = false;
  std::unique_ptr<Escaping> result_, notes_;
  bool written_ = false;
};

}  // namespace moetune
