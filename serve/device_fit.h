// Which of a service's devices can run a job: a GPU any, a recording what was recorded.
//
// Thread-safe. Errors: none once it is made; what cannot be read is left out, and the jobs on it say what is wrong.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "replay/recording.h"
#include "serve/job_request.h"

namespace moetune {

// What the device "replay:NAME" holds: a file's, a folder's, a shipped one's, or all that are shipped
// (kShippedRecordings).
std::vector<RecordingHeader> recorded_headers(const std::string& device);

class DeviceFit {
 public:
  // `devices`: "cuda:0", "replay:NAME", "auto" for all shipped recordings.
  explicit DeviceFit(const std::vector<std::string>& devices);

  bool has_recordings() const { return !recorded_.empty(); }
  // Whether the device can run the job as far as it is known without running it.
  bool can_run(const JobRequest& request, const std::string& device) const;
  // The same, or true if none of the devices can: then the job is to end with the reason.
  bool is_to_run(const JobRequest& request, const std::string& device) const;

 private:
  struct Recorded {
    std::string kernel, problem, family;  // the canonical problem; both "" if moetune does not know it
  };

  std::vector<std::string> devices_;
  std::map<std::string, std::vector<Recorded>> recorded_;  // by device
};

}  // namespace moetune
