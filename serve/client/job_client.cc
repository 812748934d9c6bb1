#include "serve/client/job_client.h"

#include <algorithm>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "http/http_server.h"
#include "serve/run/event_json.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

constexpr int kMostBreaks = 30;  // of the connection, one a second: a service that restarts
constexpr std::size_t kLongestEvent = std::size_t{1} << 20;

// An answer that no service of this moetune sends: another try would not mend it.
struct UnreadableAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void throw_error(const Json& error, const std::string& otherwise) {
  if (!error.is_object()) throw BrokenEnvironment(otherwise);
  const std::string code = text_field(error, "code"), message = text_field(error, "message");
  if (code == "bad_field") throw BadField(text_field(error, "field"), message);
  if (code == "bad_input" || code == "bad_request" || code == "nothing_tuned") throw BadInput(message);
  throw BrokenEnvironment(message.empty() ? otherwise : message);
}

bool has_ended(const Json& job) {
  const std::string state = text_field(job, "state");
  return state == "done" || state == "failed" || state == "cancelled";
}

// Server-sent events out of pieces of a stream.
class EventReader {
 public:
  // Calls `take(id, type, data)` for each whole event; false from it ends the reading.
  template <typename Take>
  bool feed(std::string_view piece, Take&& take) {
    text_ += piece;
    for (std::size_t end = 0; (end = text_.find("\n\n")) != std::string::npos;) {
      const std::string event = text_.substr(0, end);
      text_.erase(0, end + 2);
      if (!take(field(event, "id: "), field(event, "event: "), field(event, "data: "))) return false;
    }
    if (text_.size() > kLongestEvent) throw BrokenEnvironment("the service sends an event without an end");
    return true;
  }

 private:
  static std::string field(const std::string& event, const std::string& name) {
    std::size_t at = event.starts_with(name) ? 0 : event.find("\n" + name);
    if (at == std::string::npos) return "";
    at += (at == 0 && event.starts_with(name) ? 0 : 1) + name.size();
    return event.substr(at, std::min(event.find('\n', at), event.size()) - at);
  }
  std::string text_;
};

}  // namespace

JobClient::JobClient(ServiceAddress address) : address_(std::move(address)) { parse_url(address_.url); }

Json JobClient::ask(const std::string& method, const std::string& path, const std::string& body) const {
  HttpRequest request = request_to(address_, path);
  request.method = method;
  request.body = body;
  if (method == "POST") request.headers.emplace_back("Content-Type", "application/json");
  const HttpResponse response = http_request(request);
  const Json json = parse_json_or_discard(response.body);
  if (response.status < 300 && json.is_object()) return json;
  const std::string what =
      "the service at " + address_.url + " answers " + method + " " + path + " with " + std::to_string(response.status);
  throw_error(field(json, "error"), what);
}

// Returns whether the job has ended.
bool JobClient::watch(std::int64_t id, std::string& last_event, const JobContext& context) const {
  HttpRequest request = request_to(address_, "/v1/events?job=" + std::to_string(id));
  request.headers.emplace_back("Last-Event-ID", last_event);
  request.timeout = std::chrono::seconds(45);  // three heartbeats
  EventReader reader;
  bool ended = false;
  const auto take = [&](const std::string& event_id, const std::string& type, const std::string& data) {
    if (!event_id.empty()) last_event = event_id;
    if (type.empty()) return true;
    if (type == "lost") return !has_ended(ask("GET", "/v1/jobs/" + std::to_string(id)));
    try {
      if (type == "job") {
        ended = has_ended(parse_json(data, "an event"));
        return !ended;
      }
      play_event(data, context.events.job, context.events.listener);
    } catch (const BadInput& error) {
      throw UnreadableAnswer(error.what());
    }
    return true;
  };
  const HttpResponse response = http_stream(
      request, [&](std::string_view piece) { return reader.feed(piece, take); }, context.stop);
  if (response.status >= 300) {
    const Json json = parse_json_or_discard(response.body);
    throw_error(field(json, "error"), "the service refuses its events");
  }
  return ended;
}

Json JobClient::follow(std::int64_t id, const std::string& ticket, const JobContext& context) const {
  const std::string path = "/v1/jobs/" + std::to_string(id);
  std::string last_event = "0";
  bool withdrawn = false;
  for (int breaks = 0;;) {
    try {
      if (!context.stop.stop_requested()) {
        watch(id, last_event, context);
      } else if (!withdrawn) {
        ask("DELETE", path + "?ticket=" + percent_encoded(ticket));
        withdrawn = true;
      }
      const Json job = ask("GET", path);
      const bool goes_on_for_others = withdrawn && job.value("requests", 0) > 0;
      if (has_ended(job) || goes_on_for_others) return job;
      breaks = 0;
      if (context.stop.stop_requested() && !withdrawn) continue;
    } catch (const BrokenEnvironment&) {
      if (++breaks == kMostBreaks || context.stop.stop_requested()) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(withdrawn ? 100 : 1000));
  }
}

FinishedJob JobClient::run(const std::string& kind, const Json& request, const JobContext& context) const {
  const auto unreadable = [&](const std::string& why) {
    return BrokenEnvironment("what is at " + address_.url + " is no service of this moetune's version: " + why);
  };
  try {
    return submit_and_follow(kind, request, context);
  } catch (const UnreadableAnswer& error) {
    throw unreadable(error.what());
  } catch (const Json::exception& error) {
    throw unreadable(json_error_text(error));
  }
}

FinishedJob JobClient::submit_and_follow(const std::string& kind, const Json& request,
                                         const JobContext& context) const {
  const Json submitted = ask("POST", "/v1/jobs", Json{{"kind", kind}, {"request", request}}.dump());
  const Json job = follow(submitted.value("id", std::int64_t{0}), text_field(submitted, "ticket"), context);
  FinishedJob finished{.id = job.value("id", std::int64_t{0}), .result = Document(job.value("result", Json()))};
  if (!finished.result.is_null() && !finished.result.is_object())
    throw UnreadableAnswer("the result of job " + std::to_string(finished.id) + " is no object");
  if (finished.result.is_null() && !context.stop.stop_requested())
    throw_error(job.value("error", Json()), "job " + std::to_string(finished.id) + " ended without a result");
  if (job.contains("exit_code") && job["exit_code"].is_number_integer()) finished.exit_code = job["exit_code"];
  return finished;
}

}  // namespace moetune
