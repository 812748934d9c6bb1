// The code of every cubin that a range's table launches. Belongs to the job's thread; what it is made from must outlive
// it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cache/cache.h"
#include "jobs/cell_meter.h"
#include "jobs/range_plan.h"
#include "jobs/session.h"
#include "ranges/range_table.h"

namespace moetune {

class RangeVariants {
 public:
  RangeVariants(Session& session, const RangePlan& plan, const CellMeter& meter)
      : session_(session), plan_(plan), meter_(meter) {}

  // A configuration and the code of each cubin; none if nothing is compiled.
  std::vector<StoredLaunch> of(const RangeTable& table);

 private:
  const StoredLaunch& launch_of(const RangeCell& cell);

  Session& session_;
  const RangePlan& plan_;
  const CellMeter& meter_;
  std::map<std::string, StoredLaunch> launches_;  // by cubin
};

}  // namespace moetune
