// The makings of results today, to be held against what stored ones were made with.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "keys/key.h"
#include "soundness/stored_key.h"
#include "staleness/staleness.h"
#include "tuner/judgement.h"

namespace moetune {

// "2026-11-23T20:00:00Z" in seconds since 1970; 0 for another text.
std::int64_t seconds_of_date(const std::string& date);

// Reads each embedded file once; for the command's one thread.
class TodaysMakings {
 public:
  // The sources, space, toolchain and driver that results of the key depend on; judged() has the judges.
  MadeWith of(const WorkloadKey& key);
  // Judgement::of_problem of the key, for large problems a millisecond's work; "" of a recording, and if moetune does
  // not know the kernel, the problem or the architecture.
  std::string judged(const WorkloadKey& key, const KnownWorkload& known) const;
  std::string judged(const WorkloadKey& key) const;

 private:
  std::map<std::string, std::string> spaces_;  // digests by kernel
  std::shared_ptr<SourceDigests> sources_ = std::make_shared<SourceDigests>();
};

}  // namespace moetune
