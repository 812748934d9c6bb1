#include "serve/api/api.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <limits>
#include <memory>

#include "base/digest.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/lists.h"
#include "base/resources.h"
#include "kernels/registry.h"
#include "serve/api/api_answers.h"
#include "serve/api/catalog.h"
#include "serve/queue/job_document.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostPriority = 100, kMostListedJobs = 1000;
constexpr std::size_t kLongestKind = 16;
constexpr std::uint64_t kMostSmallBody = 4096;
constexpr std::chrono::seconds kWrongTokenDelay{1};
constexpr std::size_t kMostMisses = 1000, kMostReasons = 10;
constexpr std::int64_t kMissPriority = -10;      // whoever waits for a job comes first
constexpr std::uint64_t kMostCount = 1'000'000;  // of one miss: its weight is not to be beyond all others

constexpr const char* kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct PageFile {
  const char* name;
  const char* resource;
  const char* type;
};
constexpr PageFile kPageFiles[] = {
    {"live.css", "serve/page/live.css", "text/css; charset=utf-8"},
    {"live.js", "serve/page/live.js", "text/javascript; charset=utf-8"},
    {"chart.js", "report/page/chart.min.js", "text/javascript; charset=utf-8"},
};

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
  throw Refusal{404, "no_such_job", "There is no job " + std::to_string(id) + "; ended ones are forgotten in time."};
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
    return std::ranges::any_of(response.headers, [&](const auto& header) { return header.first == name; });
  };
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  if (!has("Cache-Control")) response.headers.emplace_back("Cache-Control", "no-cache");
  if (!has("Content-Security-Policy"))
    response.headers.emplace_back("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
}

ServerResponse tagged(const ServerRequest& request, const Document& document) {
  ServerResponse response = json_answer(document);
  const std::string tag = digest(response.body);
  return tagged_answer(request, std::move(response), tag);
}

bool is_tuned(const TunedProblems& tuned, const std::string& kernel, const std::string& problem,
              const std::string& hardware) {
  const auto found = tuned.find({kernel, problem});
  return found != tuned.end() && (hardware.empty() || found->second.contains(hardware));
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
    response = refusal_answer({.status = 400, .code = "bad_field", .message = error.reason(), .field = error.field()});
  } catch (const BadInput& error) {
    response = refusal_answer({.status = 400, .code = "bad_input", .message = error.what()});
  } catch (const BrokenEnvironment& error) {
    response = refusal_answer({.status = 503, .code = "broken_environment", .message = error.what()});
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
    throw Refusal{401, "no_token",
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
  if (const std::string wrong = parts_.access.foreign(request); !wrong.empty()) throw Refusal{421, "foreign", wrong};
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
  throw Refusal{
      .status = 405, .code = "no_such_method", .message = "This path takes " + allowed + ".", .allow = allowed};
}

Document Api::document_of(const JobRecord& job) const {
  return job_document(job, parts_.scheduler.progress(job.id), true);
}

JobRecord Api::record_of(const Json& body) const {
  for (const auto& [name, value] : body.items()) {
    if (name != "kind" && name != "priority" && name != "deadline_s" && name != "request")
      throw Refusal{400, "bad_request",
                    "A job has no '" + name.substr(0, 100) + "': it has kind, priority, deadline_s, request."};
  }
  const auto kind = body.find("kind");
  if (kind == body.end() || !kind->is_string()) throw BadField("kind", "it is needed, as a text");
  const auto request = body.find("request");
  if (request == body.end()) throw BadField("request", "it is needed, as an object");
  JobRecord job;
  job.kind = kind->get<std::string>().substr(0, kLongestKind);
  if (const auto found = body.find("priority"); found != body.end()) {
    const bool is_in =
        found->is_number_integer() && found->get<double>() >= -kMostPriority && found->get<double>() <= kMostPriority;
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
  job.deadline = static_cast<std::int64_t>(std::time(nullptr)) + static_cast<std::int64_t>(std::max(1.0, seconds));
  return job;
}

ServerResponse Api::submit(const ServerRequest& request, const std::string&) {
  if (const int seconds = submits_.take(request.peer); seconds > 0)
    throw Refusal{429, "too_many_requests", "Too many jobs at once from this address.", seconds};
  const JobQueue::Submitted submitted = parts_.scheduler.submit({record_of(json_body(request))}).front();
  if (!submitted.full.empty())
    throw Refusal{.status = 503, .code = "queue_full", .message = submitted.full, .retry_after = 60};
  Document document = document_of(submitted.job);
  document["ticket"] = submitted.ticket;
  ServerResponse response = json_answer(document, submitted.joined ? 200 : 201);
  response.headers.emplace_back("Location", "/v1/jobs/" + std::to_string(submitted.job.id));
  return response;
}

ServerResponse Api::list(const ServerRequest& request, const std::string&) {
  JobQueue::Filter filter;
  if (const auto state = request.query.find("state"); state != request.query.end() && !state->second.empty()) {
    filter.state = job_state_from_name(state->second);
    if (!filter.state) throw Refusal{400, "bad_request", "A state is queued, running, done, failed or cancelled."};
  }
  if (const auto kind = request.query.find("kind"); kind != request.query.end()) filter.kind = kind->second;
  filter.after = query_number(request, "after", 0, std::int64_t{1} << 53);
  filter.limit = std::max<std::int64_t>(1, query_number(request, "limit", 100, kMostListedJobs));
  const std::vector<JobRecord> found = parts_.queue.list(filter);
  Document jobs = Document::array();
  for (const JobRecord& job : found) jobs.push_back(job_document(job, parts_.scheduler.progress(job.id), false));
  const bool is_full = found.size() == static_cast<std::size_t>(filter.limit);
  return json_answer({{"jobs", std::move(jobs)}, {"next", is_full ? Document(found.back().id) : Document(nullptr)}});
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
  const auto ticket = request.query.find("ticket");
  if (ticket == request.query.end() || ticket->second.empty())
    throw Refusal{400, "no_ticket",
                  "?ticket= says whose request to take back, as the answer to its POST has it; POST /v1/jobs/" +
                      std::to_string(job_id(id)) + "/cancel ends the job for all."};
  const JobQueue::Ending ending = parts_.scheduler.withdraw(job_id(id), ticket->second);
  if (!ending.job) no_such_job(job_id(id));
  return json_answer(document_of(*ending.job));
}

ServerResponse Api::events(const ServerRequest& request, const std::string&) {
  std::optional<std::uint64_t> after;
  const std::string last = request.header("last-event-id");
  if (const auto number = positive_number(last); number && !last.empty()) after = static_cast<std::uint64_t>(*number);
  const auto job = static_cast<std::uint64_t>(query_number(request, "job", 0, std::int64_t{1} << 53));
  const auto cursor = std::make_shared<EventLog::Cursor>(parts_.log.read(after, job));
  ServerResponse response = text_answer("", "text/event-stream");
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.emplace_back("X-Accel-Buffering", "no");
  response.stream = [cursor] { return cursor->take(); };
  return response;
}

ServerResponse Api::winners(const ServerRequest& request, const std::string&) {
  return tagged(request, winners_document(parts_.cache));
}

ServerResponse Api::packs(const ServerRequest& request, const std::string&) {
  return tagged(request, parts_.shelf.list());
}

ServerResponse Api::pack(const ServerRequest& request, const std::string& name) {
  const std::optional<PackShelf::File> file = parts_.shelf.pack(name);
  if (!file) throw Refusal{404, "no_such_pack", "There is no such pack; GET /v1/packs lists them."};
  ServerResponse response = text_answer("", "application/octet-stream");
  response.bytes = file->bytes;
  response.pieces = file->pieces;
  return tagged_answer(request, std::move(response), file->sha256);
}

ServerResponse Api::signature(const ServerRequest&, const std::string& name) {
  std::optional<std::string> text = parts_.shelf.signature(name);
  if (!text) throw Refusal{404, "no_signature", "There is no such pack, or it is not signed."};
  return text_answer(std::move(*text), "application/octet-stream");
}

Api::Miss Api::miss_of(const Json& json) {
  if (!json.is_object()) throw BadInput("a miss is an object with kernel, problem and count");
  const Kernel& kernel = find_kernel(text_field(json, "kernel").substr(0, 100));
  const WorkloadSpec spec{.kernel = kernel.name(), .problem = text_field(json, "problem"), .preset = ""};
  const auto count = json.find("count");
  const bool has_count = count != json.end() && count->is_number_unsigned();
  const std::uint64_t stated = has_count ? count->get<std::uint64_t>() : 1;
  return {.kernel = kernel.name(),
          .problem = problem_of(kernel, spec).text(),
          .hardware = text_field(json, "hardware"),
          .count = static_cast<double>(std::clamp<std::uint64_t>(stated, 1, kMostCount))};
}

// A search with the budget of `moetune search`, or what this service allows.
JobRecord Api::job_of(const Miss& miss) const {
  std::vector<const ServedDevice*> fitting;
  std::set<std::string> served;
  for (const ServedDevice& device : parts_.served) {
    served.insert(device.hardware.begin(), device.hardware.end());
    if (miss.hardware.empty() || device.hardware.contains(miss.hardware)) fitting.push_back(&device);
  }
  if (fitting.empty())
    throw BadInput("it was missed on " + miss.hardware.substr(0, 100) + ", and this service tunes for " +
                   (served.empty() ? "nothing that is known" : joined(served)));
  Json search = {{"kernel", miss.kernel},
                 {"problem", miss.problem},
                 {"budget", std::min<std::uint64_t>(TuneSettings{}.budget, parts_.limits.budget)}};
  JobRequest parsed = parse_job_request("search", search, parts_.limits, parts_.devices);
  if (fitting.size() < parts_.served.size()) {
    const auto able =
        std::ranges::find_if(fitting, [&](const ServedDevice* device) { return can_run(parsed, *device); });
    search["device"] = (able != fitting.end() ? *able : fitting.front())->name;
    parsed = parse_job_request("search", search, parts_.limits, parts_.devices);
  }
  return {.kind = "search",
          .request = parsed.canonical,
          .shown = parsed.shown,
          .device = parsed.device,
          .priority = kMissPriority,
          .weight = miss.count,
          .quiet = true,
          .deadline = static_cast<std::int64_t>(std::time(nullptr)) + static_cast<std::int64_t>(kLongestWait)};
}

ServerResponse Api::misses(const ServerRequest& request, const std::string&) {
  if (const int seconds = misses_.take(request.peer); seconds > 0)
    throw Refusal{429, "too_many_requests", "Too many posts of misses from this address.", seconds};
  const Json body = json_body(request);
  const auto list = body.find("misses");
  if (list == body.end() || !list->is_array() || list->size() > kMostMisses)
    throw BadField("misses", "it must be a list of at most " + std::to_string(kMostMisses) + " misses");
  const TunedProblems tuned = tuned_problems(parts_.cache);
  std::size_t accepted = 0, known = 0;
  std::vector<JobRecord> jobs;
  std::set<std::string> why;  // of those that are refused
  for (const Json& one : *list) {
    try {
      Miss miss = miss_of(one);
      if (miss.hardware.empty()) miss.hardware = text_field(body, "hardware");  // of all, as a runtime's file has it
      JobRecord job = job_of(miss);
      ++accepted;
      parts_.metrics.count_misses(static_cast<std::uint64_t>(miss.count));
      if (is_tuned(tuned, miss.kernel, miss.problem, miss.hardware)) {
        ++known;
      } else {
        jobs.push_back(std::move(job));
      }
    } catch (const BadInput& error) {
      if (why.size() < kMostReasons) why.insert(error.what());
    }
  }
  std::size_t queued = 0, full = 0;
  if (!jobs.empty()) {
    for (const JobQueue::Submitted& one : parts_.scheduler.submit(jobs)) {
      full += !one.full.empty();
      queued += one.full.empty() && !one.joined;
    }
  }
  accepted -= full;
  if (full > 0) why.insert("the queue has no room for another missed shape; one that is still missed is posted again");
  return json_answer({{"accepted", accepted},
                      {"queued", queued},
                      {"known", known},
                      {"refused", list->size() - accepted},
                      {"why", why}},
                     202);
}

ServerResponse Api::devices(const ServerRequest&, const std::string&) {
  Document devices = Document::array();
  const std::map<std::string, std::int64_t> running = parts_.scheduler.running();
  for (const ServedDevice& device : parts_.served) {
    const std::int64_t job = running.at(device.name);
    devices.push_back({{"device", device.name},
                       {"hardware", device.hardware},
                       {"recorded", device.recorded()},
                       {"job", job > 0 ? Document(job) : Document(nullptr)}});
  }
  return json_answer({{"devices", std::move(devices)}});
}

ServerResponse Api::health(const ServerRequest&, const std::string&) { return json_answer({{"status", "ok"}}); }

ServerResponse Api::ready(const ServerRequest&, const std::string&) {
  parts_.queue.require_writable();
  const auto recorded = std::count_if(parts_.served.begin(), parts_.served.end(),
                                      [](const ServedDevice& device) { return device.recorded(); });
  return json_answer({{"status", "ready"}, {"devices", parts_.devices.size()}, {"recorded", recorded}});
}

ServerResponse Api::metrics(const ServerRequest&, const std::string&) {
  MetricGauges gauges{.jobs = parts_.queue.counts(),
                      .connections = parts_.connections(),
                      .closed_connections = parts_.closed_connections(),
                      .busy = {}};
  const std::int64_t oldest = parts_.queue.oldest_queued();
  if (oldest > 0) gauges.queue_age_s = static_cast<double>(std::time(nullptr) - oldest);
  for (const auto& [device, job] : parts_.scheduler.running()) gauges.busy[device] = job > 0;
  return text_answer(parts_.metrics.text(gauges), "text/plain; version=0.0.4; charset=utf-8");
}

ServerResponse Api::openapi(const ServerRequest&, const std::string&) {
  return text_answer(find_embedded("serve/openapi.json").value(), "application/json");
}

ServerResponse Api::page(const ServerRequest& request, const std::string&) {
  ServerResponse response = text_answer(find_embedded("serve/page/live.html").value(), "text/html; charset=utf-8");
  response.headers.emplace_back("Content-Security-Policy", kPagePolicy);
  if (!parts_.access.has_tokens() && request.header("cookie").find("moetune_session=") == std::string::npos)
    response.headers.emplace_back("Set-Cookie", parts_.access.open_session(ClientRole::read));
  return response;
}

ServerResponse Api::page_file(const ServerRequest& request, const std::string& name) {
  for (const PageFile& file : kPageFiles) {
    if (name != file.name) continue;
    std::string text = find_embedded(file.resource).value();
    const std::string tag = digest(text);
    return tagged_answer(request, text_answer(std::move(text), file.type), tag);
  }
  throw Refusal{404, "no_such_path", "There is nothing at this path."};
}

ServerResponse Api::login(const ServerRequest& request, const std::string&) {
  if (const int seconds = logins_.take(request.peer); seconds > 0)
    throw Refusal{429, "too_many_requests", "Too many attempts from this address.", seconds};
  const Json body = json_body(request);
  const auto token = body.find("token");
  const ClientRole role = token != body.end() && token->is_string()
                              ? parts_.access.role_of_token(token->get<std::string>())
                              : ClientRole::none;
  if (role == ClientRole::none) throw Refusal{401, "no_token", "That is no token of this service."};
  ServerResponse response = json_answer({{"status", "ok"}});
  response.headers.emplace_back("Set-Cookie", parts_.access.open_session(role));
  return response;
}

}  // namespace moetune
