// A tuning space as it stands in spaces/NAME.json: parameters, derived quantities, constraints, architecture
// gates and defaults. A Space is problem-independent; Space::enumerate binds it to one problem and one
// device.
//
// Expressions are integer arithmetic and logic over: parameters (bare names), quantities from "let" (bare
// names), `problem.NAME` and `device.NAME`. Operators, loosest first: `a ? b : c`, `||`, `&&`, `== !=`,
// `< <= > >=`, `+ -`, `* / %`, unary `- !`; functions min, max, ceil_div, is_pow2, log2. Named values are
// written in single quotes and compare with == and != only. `/` and `%` by zero make a constraint false, as
// do overflow of 64 bits and log2 of a number below 1, unless `&&`, `||` or `?:` skips them. docs/spaces.md
// has the file format and the whole language.
//
// Immutable after loading; safe to share between threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/assignment.h"
#include "search/legal_space.h"
#include "search/parameter.h"
#include "search/rules.h"
#include "search/transfer.h"

namespace moetune {

class BoundDefaults;      // search/bound_defaults.h
struct EnumerationStats;  // search/enumerate.h

class Space {
 public:
  // Parses the JSON text of a space file. Throws BadInput naming `file`, the line or key, and the offending
  // expression with the position in it.
  static Space parse(std::string_view text, std::string_view file);

  Space(Space&&) noexcept;
  Space& operator=(Space&&) noexcept;
  ~Space();

  const std::string& kernel() const;
  const std::vector<Parameter>& parameters() const;

  // Every legal configuration under `environment` (the `problem.*` and `device.*` names), in lexicographic
  // order of domain positions. Gives partial assignments up early: a constraint is tested as soon as its last
  // parameter is bound; the Cartesian product is never materialized. Throws BadInput where an expression
  // names something `environment` lacks. With Rules::must there may be millions.
  LegalSpace enumerate(const Assignment& environment, Rules rules = Rules::all,
                       EnumerationStats* stats = nullptr) const;

  // How many configurations are legal.
  std::uint64_t count(const Assignment& environment, Rules rules) const;

  // Why `environment` leaves no legal configuration: the constraints that rejected everything, most first,
  // with how many partial assignments each rejected, whether it had a value at all, and the `problem.*` and
  // `device.*` values that it reads; domains that gates emptied. One phrase; empty where there is a legal
  // configuration. Enumerates.
  std::string why_empty(const Assignment& environment) const;

  // The first default whose condition holds and that is legal by all rules under `environment`; if none is,
  // the first that can run (Rules::must); nullopt if none can. A default that chooses a value takes the
  // largest within its limit that is legal.
  std::optional<Config> default_config(const Assignment& environment) const;

  // The same for many environments that differ from `environment` in the names `varying` only
  // (search/bound_defaults.h). It refers to this Space, moved or not.
  std::unique_ptr<BoundDefaults> bind_defaults(const Assignment& environment,
                                               const std::vector<std::string>& varying) const;
  // `name` is always `factor` times the varying `of`.
  std::unique_ptr<BoundDefaults> bind_defaults(const Assignment& environment, const std::vector<std::string>& varying,
                                               const std::string& name, const std::string& of,
                                               std::int64_t factor) const;

  // The values that `a=1,b=tma` text gives, in its order. Throws BadInput for empty text, an unknown
  // parameter (suggesting the nearest) or a value outside the domain.
  Config parse_values(std::string_view text) const;

  // A configuration from such text; parameters left out take their value from `base` where given. Throws
  // BadInput also for a parameter left without a value.
  Config parse_config(std::string_view text, const Config* base = nullptr) const;

  // How a configuration of the problem `there` is carried over to the problem `here`: see search/transfer.h.
  // The Transfer refers to this Space. Throws BadInput where an expression names something that either lacks.
  Transfer transfer(const Assignment& there, const Assignment& here) const;

  // Why a configuration is illegal under `environment` (the first violated constraint with its reason and
  // kind), or an empty string where it is legal.
  std::string why_illegal(const Config& config, const Assignment& environment, Rules rules = Rules::all) const;

 private:
  struct Impl;
  explicit Space(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace moetune
