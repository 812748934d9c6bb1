#include "serve/queue/job_document.h"

#include "base/json.h"
#include "base/time_stamp.h"

namespace moetune {
namespace {

Document date_or_null(std::int64_t seconds) {
  return seconds > 0 ? Document(utc_text(UtcSeconds(std::chrono::seconds(seconds)))) : Document(nullptr);
}

// Stored by this service, so that it is sound; null for "".
Document stored_json(const std::string& text) {
  if (text.empty()) return nullptr;
  const nlohmann::json json = parse_json_or_discard(text);
  return json.is_discarded() ? Document(nullptr) : Document(json);
}

constexpr const char* kShownFields[] = {"kernel", "problem", "over"};

}  // namespace

std::string shown_of_request(const nlohmann::json& request) {
  nlohmann::json shown = nlohmann::json::object();
  for (const char* name : kShownFields) {
    if (request.is_object() && request.contains(name)) shown[name] = request[name];
  }
  return shown.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Document job_document(const JobRecord& job, const Document& progress, bool whole) {
  Document document = {{"id", job.id},
                       {"kind", job.kind},
                       {"state", job_state_name(job.state)},
                       {"priority", job.priority},
                       {"weight", job.weight},
                       {"requests", job.requests},
                       {"device", job.device.empty() ? Document(nullptr) : Document(job.device)},
                       {"not_before", date_or_null(job.not_before)},
                       {"deadline", date_or_null(job.deadline)},
                       {"created", date_or_null(job.created)},
                       {"started", date_or_null(job.started)},
                       {"ended", date_or_null(job.ended)},
                       {"progress", progress},
                       {"error", stored_json(job.error)},
                       {"exit_code", job.exit_code ? Document(*job.exit_code) : Document(nullptr)}};
  if (whole) {
    document["request"] = stored_json(job.request);
    document["result"] = stored_json(job.result);
    return document;
  }
  const nlohmann::json shown = parse_json_or_discard(job.shown);
  for (const char* name : kShownFields) {
    const bool has = shown.is_object() && shown.contains(name);
    document[name] = has ? Document(shown[name]) : Document(nullptr);
  }
  return document;
}

}  // namespace moetune
