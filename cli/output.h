// Where text goes. Without --json a command's result is for people and goes to stdout. With --json stdout
// carries exactly one JSON document and everything for people goes to stderr. Notes always go to stderr.
//
// One Output a process, owned by the command line; single-threaded.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

namespace moetune {

class Output {
 public:
  explicit Output(bool json) : json_(json) {}

  bool json() const { return json_; }

  std::ostream& result() const;                  // the answer, for people
  std::ostream& notes() const;                   // banners, progress, warnings
  void note(const std::string& sentence) const;  // one line of notes()

  // The answer for programs. Does nothing without --json, nor after the first: what fails later is a note.
  void document(const nlohmann::ordered_json& document);

  // Ends the output. Throws BrokenEnvironment where stdout could not take all of it.
  void finish() const;

 private:
  bool json_;
  bool written_ = false;
};

}  // namespace moetune
