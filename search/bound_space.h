// A space file bound to one problem and device: every expression compiled with the environment's constants
// folded in. Immutable once built; refers to the SpaceFile, which must outlive it. Throws BadInput where an
// expression names something the environment lacks, or uses it as the wrong type.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "search/assignment.h"
#include "search/program.h"
#include "search/space_file.h"

namespace moetune {

class BoundSpace {
 public:
  // Runs over an array of slot values: parameters first (see value_of), then lets.
  struct Rule {
    Program program;
    std::vector<std::size_t> parameters;  // that decide it, through lets too: ascending
    std::vector<std::size_t> lets;        // to be computed before it, in this order
  };

  BoundSpace(const SpaceFile& file, const Assignment& environment, Rules rules);

  const SpaceFile& file() const { return file_; }
  const Assignment& environment() const { return environment_; }
  std::size_t slot_count() const { return file_.vocabulary.size(); }
  Slot let_slot(std::size_t let) const { return file_.lets[let].slot; }
  const std::vector<Rule>& lets() const { return lets_; }
  // Those that apply, in the order of the file.
  const std::vector<Rule>& constraints() const { return constraints_; }
  const SpaceFile::Constraint& constraint(std::size_t i) const { return file_.constraints[applied_[i]]; }
  // The quantity that file().kept[i] names, at a point; kUndefined where it has no value there.
  std::int64_t kept_quantity(std::size_t i, std::span<const Position> point) const;
  bool allowed(std::size_t parameter, Position position) const { return closed_gate(parameter, position) == nullptr; }

  // The value of a domain position in expressions: the integer, or the name's number.
  std::int64_t value_of(std::size_t parameter, Position position) const { return values_[parameter][position]; }

  // Why a point is illegal, or an empty string.
  std::string why_illegal(std::span<const Position> point) const;

  // Evaluates an expression of the environment alone; kUndefined if it has no value.
  std::int64_t evaluate(const Expression& expression) const;

  // Whether a condition on the environment alone holds.
  bool holds(const Expression& condition) const;

 private:
  Rule bind(const Expression& expression) const;
  const Expression* closed_gate(std::size_t parameter, Position position) const;

  const SpaceFile& file_;
  Assignment environment_;
  std::vector<Binding> bindings_;
  std::vector<std::vector<std::int64_t>> values_;
  std::vector<const SpaceFile::Gate*> closed_gates_;
  std::vector<Rule> lets_;
  std::vector<Rule> constraints_;
  std::vector<std::size_t> applied_;  // by constraint: its place in the file
  std::vector<Rule> kept_;
};

}  // namespace moetune
