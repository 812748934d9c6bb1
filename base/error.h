// The two ways moetune gives up. A kernel candidate that fails is neither: it is an Outcome.
#pragma once

#include <stdexcept>
#include <string>

namespace moetune {

// The user asked for something that cannot be done. what() is one sentence: what was wrong, where, and
// what would be right. The command line exits with 2.
class BadInput : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The same of one field of a request, by the field's name ("problem", "device"). what() begins with it. The
// command line names the option of the same name instead.
class BadField : public BadInput {
 public:
  BadField(const std::string& field, const std::string& reason)
      : BadInput(field + ": " + reason), field_(field), reason_(reason) {}

  const std::string& field() const { return field_; }
  const std::string& reason() const { return reason_; }

 private:
  std::string field_, reason_;
};

// The machine cannot do its part: no driver, no compiler, a full disk, a damaged cache. what() names the
// call, the reason and what to do. The command line exits with 3.
class BrokenEnvironment : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The same of one problem alone: the device's memory does not hold it. Smaller ones may go on.
class TooLittleMemory : public BrokenEnvironment {
 public:
  using BrokenEnvironment::BrokenEnvironment;
};

}  // namespace moetune
