// The two kinds of constraints in a space file, and who holds to which. Plain values.
#pragma once

#include <string_view>

namespace moetune {

// must: a configuration that breaks it cannot run, or is another spelling of one that can. useful: a guess at
// speed.
enum class ConstraintKind { must, useful };

// The constraints that apply. A search keeps all; a configuration that somebody chose, or that was stored, only has
// to be able to run.
enum class Rules { must, all };

inline bool applies(ConstraintKind kind, Rules rules) { return kind == ConstraintKind::must || rules == Rules::all; }

inline std::string_view kind_name(ConstraintKind kind) { return kind == ConstraintKind::must ? "must" : "useful"; }

}  // namespace moetune
