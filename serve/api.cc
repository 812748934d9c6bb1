#include "serve/api.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "serve/api_answers.h"
#include "serve/job_document.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostPriority = 100, kMostListedJobs = 1000;
constexpr std::size_t kLongestKind = 16;
constexpr std::uint64_t kMostSmallBody = 4096;
constexpr std::chrono::seconds kWrongTokenDelay{1};

std::optional<std::int64_t> positive_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::int64_t query_number(const ServerRequest& request, const std::string& name, std::int64_t otherwise,
                          std::int64_t most) {
  const auto found = request.query.find(name);
  if (found == request.query.end()) return otherwise;
  const auto value = positive_number(found->second);
  if (!value || *value > most)
    throw Refusal{400, "bad_request", name + " must be a number from 0 to " + std::to_string(most) + "."};
  return *value;
}

std::int64_t job_id(const std::string& text) {
  const auto id = positive_number(text);
  if (!id) throw Refusal{404, "no_such_job", "A job's id is a number."};
  return *id;
}

[[noreturn]] void no_such_job(std::int64_t id) {
  throw Refusal{404, "no_such_job",
                "There is no job " + std::to_string(id) + "; ended ones are forgotten in time."};
}

// The parameter of a path that fits a template such as "/v1/jobs/{id}/cancel"; nullopt if it does not.
std::optional<std::string> match(std::string_view pattern, std::string_view path) {
  const std::size_t begin = pattern.find('{');
  if (begin == std::string_view::npos) return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, begin), after = pattern.substr(pattern.find('}') + 1);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return std::nullopt;
  const std::string_view value = path.substr(before.size(), path.size() - before.size() - after.size());
  if (value.find('/') != std::string_view::npos) return std::nullopt;
  return std::string(value);
}

// "application/json" of " Application/JSON ; charset=utf-8": names of media types have no case.
std::string media_type(const std::string& header) {
  std::string type;
  for (const char c : header.substr(0, header.find(';')))
    if (c != ' ' && c != '\t') type += c;
  return lower_case(std::move(type));
}

void check_post(const ServerRequest& request) {
  const std::string encoding = media_type(request.header("content-encoding"));
  if (!encoding.empty() && encoding != "identity")
    throw Refusal{415, "encoded", "The body of a POST comes as it is, without a Content-Encoding."};
  if (media_type(request.header("content-type")) != "application/json")
    throw Refusal{415, "not_json", "The body of a POST is application/json."};
}

void add_safety(ServerResponse& response) {
  const auto has = [&](const std::string& name) {
    return std::any_of(response.headers.begin(), response.headers.end(),
                       [&](const auto& header) { return header.first == name; });
  };
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  if (!has("Cache-Control")) response.headers.emplace_back("Cache-Control", "no-cache");
  if (!has("Content-Security-Policy"))
    response.headers.emplace_back("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
}

}  // namespace

Api::Api(ApiParts parts, const ApiLimits& limits)
    : parts_(std::move(parts)),
      submits_(limits.submits_burst, limits.submits_per_minute),
      misses_(limits.misses_burst, limits.misses_per_minute),
      logins_(limits.logins_burst, limits.logins_per_minute),
      wrong_tokens_(limits.wrong_tokens_burst, limits.wrong_tokens_per_minute) {}

const std::vector<Api::Route>& Api::routes() {
  using enum ClientRole;
  static const std::vector<Route> all = {
      {"POST", "/v1/jobs", ClientRole::submit, &Api::submit},
      {"GET", "/v1/jobs", read, &Api::list},
      {"GET", "/v1/jobs/{id}", read, &Api::show},
      {"DELETE", "/v1/jobs/{id}", ClientRole::submit, &Api::withdraw},
      {"POST", "/v1/jobs/{id}/cancel", ClientRole::submit, &Api::cancel},
      {"GET", "/v1/ended", read, &Api::ended},
      {"GET", "/v1/events", read, &Api::events},
      {"GET", "/v1/winners", read, &Api::winners},
      {"GET", "/v1/tables", read, &Api::tables},
      {"GET", "/v1/packs", read, &Api::packs},
      {"GET", "/v1/packs/{name}", read, &Api::pack},
      {"GET", "/v1/packs/{name}/signature", read, &Api::signature},
      {"POST", "/v1/misses", miss, &Api::misses},
      {"GET", "/v1/devices", read, &Api::devices},
      {"POST", "/v1/session", none, &Api::login},
      {"GET", "/v1/openapi.json", none, &Api::openapi},
      {"GET", "/healthz", none, &Api::health},
      {"GET", "/readyz", none, &Api::ready},
      {"GET", "/metrics", read, &Api::metrics},
      {"GET", "/", none, &Api::page},
      {"GET", "/page/{name}", none, &Api::page_file},
  };
  return all;
}

ServerResponse Api::handle(const ServerRequest& request) {
  ServerResponse response;
  try {
    const auto [route, parameter] = find_route(request);
    response = (this->*route->answer)(request, parameter);
  } catch (const Refusal& refusal) {
    response = refusal_answer(refusal);
  } catch (const BadField& error) {
    response = refusal_answer(
        {.status = 400, .code = "bad_field", .message = error.reason(), .field = error.field(), .allow = {}});
  } catch (const QueueFull& error) {
    response = refusal_answer({.status = 503,
                               .code = "queue_full",
                               .message = error.what(),
                               .retry_after = 60,
                               .field = {},
                               .allow = {}});
  } catch (const BadInput& error) {
    response = refusal_answer(
        {.status = 400, .code = "bad_input", .message = error.what(), .field = {}, .allow = {}});
  } catch (const BrokenEnvironment& error) {
    response = refusal_answer(
        {.status = 503, .code = "broken_environment", .message = error.what(), .field = {}, .allow = {}});
  }
  complete(response);
  return response;
}

std::optional<ServerResponse> Api::refuse_head(const ServerRequest& request) {
  try {
    find_route(request);
    return std::nullopt;
  } catch (const Refusal& refusal) {
    ServerResponse response = refusal_answer(refusal);
    complete(response);
    return response;
  }
}

void Api::complete(ServerResponse& response) {
  add_safety(response);
  parts_.metrics.count_response(response.status);
}

bool Api::is_quick(const ServerRequest& request) { return request.path == "/healthz"; }

std::uint64_t Api::most_body(const ServerRequest& request) {
  const bool is_large = request.method == "POST" && request.path != "/v1/session";
  return is_large ? std::numeric_limits<std::uint64_t>::max() : kMostSmallBody;
}

// A right token is served however many wrong ones came from its address, which several clients may share.
void Api::refuse_stranger(const ServerRequest& request) {
  if (request.header("authorization").empty())
    throw Refusal{
        401, "no_token",
        "This needs a token: the header 'Authorization: Bearer TOKEN', or --token-file of moetune's "
        "commands."};
  if (const int seconds = wrong_tokens_.take(request.peer); seconds > 0)
    throw Refusal{.status = 429,
                  .code = "too_many_requests",
                  .message = "Too many wrong tokens from this address.",
                  .retry_after = seconds,
                  .field = {},
                  .allow = {},
                  .delay = kWrongTokenDelay};
  throw Refusal{401, "no_token", "That is no token of this service."};
}

std::pair<const Api::Route*, std::string> Api::find_route(const ServerRequest& request) {
  if (const std::string wrong = parts_.access.foreign(request); !wrong.empty())
    throw Refusal{421, "foreign", wrong};
  std::string allowed;
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : routes()) {
    const std::optional<std::string> parameter = match(route.path, request.path);
    if (!parameter) continue;
    if (method != route.method) {
      allowed += (allowed.empty() ? "" : ", ") + std::string(route.method);
      continue;
    }
    if (route.role != ClientRole::none) {
      const ClientRole role = parts_.access.role_of(request);
      if (role == ClientRole::none) refuse_stranger(request);
      if (role < route.role) throw Refusal{403, "role", "The token's role does not allow this."};
    }
    if (request.method == "POST") check_post(request);
    return {&route, *parameter};
  }
  if (allowed.empty()) throw Refusal{404, "no_such_path", "There is nothing at this path."};
  throw Refusal{.status = 405,
                .code = "no_such_method",
                .message = "This path takes " + allowed + ".",
                .field = {},
                .allow = allowed};
}

Document Api::document_of(const JobRecord& job) const {
  return job_document(job, parts_.scheduler.progress(job.id), true);
}

JobRecord Api::record_of(const Json& body) const {
  for (const auto& [name, value] : body.items()) {
    if (name != "kind" && name != "priority" && name != "deadline_s" && name != "request")
      throw Refusal{
          400, "bad_request",
          "A job has no '" + name.substr(0, 100) + "': it has kind, priority, deadline_s, request."};
  }
  const auto kind = body.find("kind");
  if (kind == body.end() || !kind->is_string()) throw BadField("kind", "it is needed, as a text");
  const auto request = body.find("request");
  if (request == body.end()) throw BadField("request", "it is needed, as an object");
  JobRecord job;
  job.kind = kind->get<std::string>().substr(0, kLongestKind);
  if (const auto found = body.find("priority"); found != body.end()) {
    const bool is_in = found->is_number_integer() && found->get<double>() >= -kMostPriority &&
                       found->get<double>() <= kMostPriority;
    if (!is_in) throw BadField("priority", "it is a whole number from -100 to 100");
    job.priority = found->get<std::int64_t>();
  }
  const JobRequest parsed = parse_job_request(job.kind, *request, parts_.limits, parts_.devices);
  job.request = parsed.canonical;
  job.shown = parsed.shown;
  job.device = parsed.device;
  double seconds = kLongestWait;
  if (const auto found = body.find("deadline_s"); found != body.end() && !found->is_null()) {
    if (!found->is_number() || found->get<double>() <= 0 || found->get<double>() > seconds)
      throw BadField("deadline_s", "it is a number of seconds, above 0 and at most " +
                                       std::to_string(static_cast<std::int64_t>(seconds)));
    seconds = found->get<double>();
  }
  job.deadline =
      static_cast<std::int64_t>(std::time(nullptr)) + static_cast<std::int64_t>(std::max(1.0, seconds));
  return job;
}

ServerResponse Api::submit(const ServerRequest& request, const std::string&) {
  if (const int seconds = submits_.take(request.peer); seconds > 0)
    throw Refusal{429, "too_many_requests", "Too many jobs at once from this address.", seconds};
  const JobQueue::Submitted submitted = parts_.scheduler.submit(record_of(json_body(request)));
  Document document = document_of(submitted.job);
  document["ticket"] = submitted.ticket;
  ServerResponse response = json_answer(document, submitted.joined ? 200 : 201);
  response.headers.emplace_back("Location", "/v1/jobs/" + std::to_string(submitted.job.id));
  return response;
}

ServerResponse Api::list(const ServerRequest& request, const std::string&) {
  JobQueue::Filter filter;
  if (const auto state = request.query.find("state");
      state != request.query.end() && !state->second.empty()) {
    filter.state = job_state_from_name(state->second);
    if (!filter.state)
      throw Refusal{400, "bad_request", "A state is queued, running, done, failed or cancelled."};
  }
  if (const auto kind = request.query.find("kind"); kind != request.query.end()) filter.kind = kind->second;
  filter.after = query_number(request, "after", 0, std::int64_t{1} << 53);
  filter.limit = std::max<std::int64_t>(1, query_number(request, "limit", 100, kMostListedJobs));
  const std::vector<JobRecord> found = parts_.queue.list(filter);
  Document jobs = Document::array();
  for (const JobRecord& job : found)
    jobs.push_back(job_document(job, parts_.scheduler.progress(job.id), false));
  const bool is_full = found.size() == static_cast<std::size_t>(filter.limit);
  return json_answer(
      {{"jobs", std::move(jobs)}, {"next", is_full ? Document(found.back().id) : Document(nullptr)}});
}

ServerResponse Api::ended(const ServerRequest& request, const std::string&) {
  Document jobs = Document::array();
  const std::int64_t limit = query_number(request, "limit", 50, kMostListedJobs);
  for (const JobRecord& job : parts_.queue.latest(static_cast<std::size_t>(limit)))
    jobs.push_back(job_document(job, nullptr, false));
  return json_answer({{"jobs", std::move(jobs)}});
}

ServerResponse Api::show(const ServerRequest&, const std::string& id) {
  const std::optional<JobRecord> job = parts_.queue.find(job_id(id));
  if (!job) no_such_job(job_id(id));
  return json_answer(document_of(*job));
}

ServerResponse Api::cancel(const ServerRequest&, const std::string& id) {
  const std::optional<JobRecord> job = parts_.scheduler.cancel(job_id(id));
  if (!job) no_such_job(job_id(id));
  return json_answer(document_of(*job));
}

ServerResponse Api::withdraw(const ServerRequest& request, const std::string& id) {
  const auto found = request.query.find("ticket");
  const std::string ticket = found == request.query.end() ? "" : found->second;
  const JobQueue::Ending ending = parts_.scheduler.withdraw(job_id(id), ticket);
  const std::optional<JobRecord>& job = ending.job;
  if (!job) no_such_job(job_id(id));
  const bool is_refused = ticket.empty() && !ending.withdrawn && is_open(job->state) && !job->ending;
  const std::int64_t waiting = job->requests - job->misses;
  if (is_refused && waiting == 0)
    throw Refusal{409, "missed_shape",
                  "Nobody waits for this job: it is of a missed shape, which has no ticket. POST /v1/jobs/" +
                      std::to_string(job->id) + "/cancel ends it."};
  if (is_refused)
    throw Refusal{409, "several_requests",
                  std::to_string(waiting) +
                      " requests wait for this job; ?ticket= names yours, as the answer to its POST has it."};
  return json_answer(document_of(*job));
}

ServerResponse Api::events(const ServerRequest& request, const std::string&) {
  std::optional<std::uint64_t> after;
  const std::string last = request.header("last-event-id");
  if (const auto number = positive_number(last); number && !last.empty())
    after = static_cast<std::uint64_t>(*number);
  const auto job = static_cast<std::uint64_t>(query_number(request, "job", 0, std::int64_t{1} << 53));
  const auto cursor = std::make_shared<EventLog::Cursor>(parts_.log.read(after, job));
  ServerResponse response = text_answer("", "text/event-stream");
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.emplace_back("X-Accel-Buffering", "no");
  response.stream = [cursor] { return cursor->take(); };
  return response;
}

}  // namespace moetune
