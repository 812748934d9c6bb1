// The code of every cubin that a range's table launches, and of every default of the range. Belongs to the job's thread; what it is made from must outlive
// it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/cell_meter.h"
#include "jobs/range_picks.h"
#include "jobs/session/session.h"
#include "ranges/range_table.h"

namespace moetune {

class RangeVariants {
 public:
  RangeVariants(Session& session, const CellMeter& meter) : session_(session), meter_(meter) {}

  // A configuration and the code of each cubin, those of defaults too; none if nothing is compiled.
  std::vector<StoredLaunch> of(const RangeTable& table, const std::vector<RangePicks::Default>& defaults);

 private:
  const StoredLaunch& launch_of(const std::string& config, const Problem& problem);

  Session& session_;
  const CellMeter& meter_;
  std::map<std::string, StoredLaunch> launches_;  // by cubin
};

}  // namespace moetune
