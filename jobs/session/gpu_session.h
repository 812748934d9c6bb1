// The session of verify and bench: on a GPU, and its device ends with Stopped as soon as a stop is requested.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jobs/session/job.h"
#include "jobs/session/session.h"

namespace moetune {

// Reads `config`, if there is one, before a GPU is looked for: what is wrong with the text is wrong on every machine.
// `job` is for messages. Throws as choose_device and Session do.
Session gpu_session(const JobTarget& target, const std::optional<std::string>& config, std::string_view job,
                    const JobContext& context, Timing timing = Timing::overlapped);

}  // namespace moetune
