#include <algorithm>
#include <ctime>

#include "base/digest.h"
#include "base/error.h"
#include "base/format.h"
#include "base/resources.h"
#include "kernels/registry.h"
#include "serve/api.h"
#include "serve/api_answers.h"
#include "serve/catalog.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

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

std::string query_text(const ServerRequest& request, const std::string& name) {
  const auto found = request.query.find(name);
  return found == request.query.end() ? "" : found->second;
}

CatalogFilter filter_of(const ServerRequest& request) {
  return {.kernel = query_text(request, "kernel"),
          .hardware = query_text(request, "hardware"),
          .family = query_text(request, "family")};
}

ServerResponse tagged(const ServerRequest& request, const Document& document) {
  ServerResponse response = json_answer(document);
  const std::string tag = digest(response.body);
  return tagged_answer(request, std::move(response), tag);
}

std::string miss_text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_tuned(const TunedProblems& tuned, const std::string& kernel, const std::string& problem,
              const std::string& hardware) {
  const auto found = tuned.find({kernel, problem});
  return found != tuned.end() && (hardware.empty() || found->second.contains(hardware));
}

}  // namespace

ServerResponse Api::winners(const ServerRequest& request, const std::string&) {
  return tagged(request, winners_document(parts_.cache, filter_of(request)));
}

ServerResponse Api::tables(const ServerRequest& request, const std::string&) {
  return tagged(request, tables_document(parts_.cache, filter_of(request)));
}

ServerResponse Api::packs(const ServerRequest& request, const std::string&) {
  const CatalogFilter filter = filter_of(request);
  return tagged(
      request,
      parts_.shelf.list({.kernel = filter.kernel, .hardware = filter.hardware, .family = filter.family}));
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
  const Kernel& kernel = find_kernel(miss_text(json, "kernel").substr(0, 100));
  const WorkloadSpec spec{.kernel = kernel.name(), .problem = miss_text(json, "problem"), .preset = ""};
  const auto count = json.find("count");
  const bool has_count = count != json.end() && count->is_number_unsigned();
  const std::uint64_t stated = has_count ? count->get<std::uint64_t>() : 1;
  return {.kernel = kernel.name(),
          .problem = problem_of(kernel, spec).text(),
          .hardware = miss_text(json, "hardware"),
          .count = static_cast<double>(std::clamp<std::uint64_t>(stated, 1, kMostCount))};
}

// A search with the budget of `moetune search`, or what this service allows.
JobRecord Api::job_of(const Miss& miss) const {
  std::vector<std::string> fitting;
  std::set<std::string> served;
  for (const ServedDevice& device : parts_.served) {
    served.insert(device.hardware.begin(), device.hardware.end());
    if (miss.hardware.empty() || device.hardware.contains(miss.hardware)) fitting.push_back(device.name);
  }
  if (fitting.empty())
    throw BadInput("it was missed on " + miss.hardware.substr(0, 100) + ", and this service tunes for " +
                   (served.empty() ? "nothing that is known" : joined(served)));
  Json search = {{"kernel", miss.kernel},
                 {"problem", miss.problem},
                 {"budget", std::min<std::uint64_t>(TuneSettings{}.budget, parts_.limits.budget)}};
  JobRequest parsed = parse_job_request("search", search, parts_.limits, parts_.devices);
  if (fitting.size() < parts_.served.size()) {
    const auto able = std::ranges::find_if(
        fitting, [&](const std::string& device) { return parts_.fit.can_run(parsed, device); });
    search["device"] = able != fitting.end() ? *able : fitting.front();
    parsed = parse_job_request("search", search, parts_.limits, parts_.devices);
  }
  return {
      .kind = "search",
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
      if (miss.hardware.empty())
        miss.hardware = miss_text(body, "hardware");  // of all, as a runtime's file has it
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
  JobQueue::TakenMisses taken;
  if (!jobs.empty()) taken = parts_.scheduler.submit_missed(jobs);
  accepted -= taken.full;
  if (taken.full > 0)
    why.insert("the queue has no room for another missed shape; one that is still missed is posted again");
  return json_answer({{"accepted", accepted},
                      {"queued", taken.queued},
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

ServerResponse Api::health(const ServerRequest&, const std::string&) {
  return json_answer({{"status", "ok"}});
}

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
  ServerResponse response =
      text_answer(find_embedded("serve/page/live.html").value(), "text/html; charset=utf-8");
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
