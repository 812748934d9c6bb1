// The documents that a proposer is sent (docs/proposers.md). Pure functions.
#pragma once

#include "jobs/session/documents.h"
#include "jobs/session/session.h"

namespace moetune {

// Describes the search. The source is left out if it is too large, or the kernel is not moetune's.
Document hello_document(const Session& session, const TuneRequest& request);

// A result; `build` is null if nothing was compiled. `floor` is that of the roofline fraction.
Document tell_document(const Trial& trial, const Build* build, const std::optional<Objective>& objective,
                       const std::optional<Floor>& floor);

}  // namespace moetune
