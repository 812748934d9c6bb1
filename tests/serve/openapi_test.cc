// serve/openapi.json against the running service: paths, statuses, the types of answers, and the fields of requests.
#include <regex>
#include <set>

#include "base/error.h"
#include "base/resources.h"
#include "serve/run/job_request.h"
#include "tests/paths.h"
#include "tests/serve/running_service.h"

using namespace moetune;
using namespace moetune::testing;

namespace {

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "array") return value.is_array();
  return type == "object" ? value.is_object() : value.is_string();
}

// What of the description's JSON Schema is in use. "" if the value fits.
class Schema {
 public:
  explicit Schema(const Json& description) : description_(description) {}

  const Json& resolved(const Json& schema) const {
    if (!schema.contains("$ref")) return schema;
    return description_.at(Json::json_pointer(schema["$ref"].get<std::string>().substr(1)));
  }
  std::string misfit(const Json& value, const Json& given, const std::string& at) const {
    const Json& schema = resolved(given);
    for (const auto& [keyword, what] : schema.items()) {
      if (!kKnown.contains(keyword)) return at + ": the test knows no " + keyword;
    }
    if (const std::string wrong = wrong_value(value, schema); !wrong.empty()) return at + ": " + wrong;
    if (value.is_object() && schema.contains("properties")) return misfit_of_fields(value, schema, at);
    if (value.is_array() && schema.contains("items")) {
      for (const Json& one : value) {
        if (const std::string wrong = misfit(one, schema["items"], at + "[]"); !wrong.empty()) return wrong;
      }
    }
    return "";
  }

 private:
  static std::string wrong_value(const Json& value, const Json& schema) {
    if (schema.contains("type")) {
      const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      if (std::none_of(types.begin(), types.end(), [&](const Json& one) { return has_type(value, one); }))
        return value.dump() + " is no " + schema["type"].dump();
    }
    const auto in = [&](const Json& all) { return std::find(all.begin(), all.end(), value) != all.end(); };
    if (schema.contains("enum") && !in(schema["enum"])) return value.dump() + " is not of " + schema["enum"].dump();
    if (value.is_number() && ((schema.contains("minimum") && value < schema["minimum"]) ||
                              (schema.contains("maximum") && value > schema["maximum"])))
      return value.dump() + " is out of bounds";
    return "";
  }
  std::string misfit_of_fields(const Json& value, const Json& schema, const std::string& at) const {
    for (const Json& name : schema.value("required", Json::array())) {
      if (!value.contains(name.get<std::string>())) return at + ": there is no " + name.dump();
    }
    const Json& properties = schema["properties"];
    for (const auto& [name, one] : value.items()) {
      if (!properties.contains(name)) {
        if (schema.contains("required") && !schema["required"].empty() && at != "openapi")
          return at + ": " + name + " is not described";
        continue;
      }
      if (const std::string wrong = misfit(one, properties[name], at + "." + name); !wrong.empty()) return wrong;
    }
    return "";
  }

  static inline const std::set<std::string> kKnown = {
      "type",        "required",         "properties", "items",
      "enum",        "minimum",          "maximum",    "format",
      "description", "exclusiveMinimum", "allOf",      "additionalProperties"};
  const Json& description_;
};

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), ::toupper);
  return text;
}

}  // namespace

TEST_CASE("the description and the service have the same paths, and answers are what it says") {
  RunningService running;
  std::filesystem::create_directory(running.folder / "packs");
  std::filesystem::copy_file(paths::source("packs/h200.pack"), running.folder / "packs/h200.pack");
  std::ofstream(running.folder / "packs/h200.pack.sig") << "a signature";
  running.options.packs = (running.folder / "packs").string();
  running.start();
  const Json described = running.get("/v1/openapi.json");
  const Schema schema(described);
  CHECK(described == Json::parse(find_embedded("serve/openapi.json").value()));
  CHECK(described["openapi"] == "3.1.0");
  std::set<std::string> routes, paths;
  for (const Api::Route& route : Api::routes()) routes.insert(std::string(route.method) + " " + route.path);
  for (const auto& [path, methods] : described["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) paths.insert(upper_case(method) + " " + path);
  }
  CHECK(routes == paths);
  running.ended(running.submit({{"budget", 5}})["id"]);
  for (const auto& [path, methods] : described["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      if (path == "/v1/events") continue;  // has no end
      std::string at = std::regex_replace(path, std::regex("\\{id\\}"), "1");
      at = std::regex_replace(at, std::regex("\\{name\\}"), path.starts_with("/page") ? "live.js" : "h200.pack");
      for (const Json& parameter : operation.value("parameters", Json::array()))
        if (parameter["in"] == "query" && parameter.value("required", false))
          at += "?" + parameter["name"].get<std::string>() + "=x";
      const std::string body = operation.contains("requestBody")
                                   ? operation["requestBody"]["content"]["application/json"]["example"].dump()
                                   : "";
      const HttpResponse response = running.ask(upper_case(method), at, body);
      INFO(method << " " << at << " " << response.status << " " << response.body.substr(0, 200));
      const bool is_refused = path == "/v1/session";  // there are no tokens
      CHECK((response.status < 300) != is_refused);
      const std::string status = std::to_string(response.status);
      REQUIRE(operation["responses"].contains(status));
      const Json& said = schema.resolved(operation["responses"][status]);
      if (!said.contains("content") || !said["content"].contains("application/json")) continue;
      CHECK(response.header("content-type") == "application/json");
      CHECK(schema.misfit(Json::parse(response.body), said["content"]["application/json"]["schema"],
                          path == "/v1/openapi.json" ? "openapi" : "answer") == "");
    }
  }
}

TEST_CASE("what is refused has a status that is described") {
  const SlowTrials slow;
  RunningService running;
  running.start();
  const Json described = running.get("/v1/openapi.json");
  const auto check = [&](const HttpResponse& response, const std::string& path, const std::string& method, int status) {
    CAPTURE(path);
    CHECK(response.status == status);
    CHECK(described["paths"][path][method]["responses"].contains(std::to_string(status)));
    CHECK(Schema(described).misfit(Json::parse(response.body), described["components"]["schemas"]["Error"], "error") ==
          "");
  };
  check(running.ask("PUT", "/v1/jobs", "{}"), "/v1/jobs", "get", 405);
  check(running.ask("POST", "/v1/jobs", std::string(2 << 20, ' ')), "/v1/jobs", "post", 413);
  HttpRequest text = running.request("POST", "/v1/misses", "{}");
  text.headers = {{"Content-Type", "text/plain"}};
  check(http_request(text), "/v1/misses", "post", 415);
  HttpRequest foreign = running.request("GET", "/healthz");
  foreign.headers.emplace_back("Host", "evil.example");
  check(http_request(foreign), "/healthz", "get", 421);
  HttpRequest long_header = running.request("GET", "/healthz");
  long_header.headers.emplace_back("X-Long", std::string(20'000, 'x'));
  check(http_request(long_header), "/healthz", "get", 431);
  running.submit({{"budget", 2000}, {"seed", 6}});
  check(running.ask("DELETE", "/v1/jobs/1"), "/v1/jobs/{id}", "delete", 400);
}

TEST_CASE("the fields of every kind's request are those that the service reads") {
  const Json described = Json::parse(find_embedded("serve/openapi.json").value());
  const Json list = {{"moetune_workloads", 1}, {"workloads", Json::array()}};
  const std::map<std::string, Json> least = {
      {"search", Json::object()},         {"range", {{"kernel", "router"}, {"over", "tokens=1..8"}}},
      {"tune", {{"workloads", list}}},    {"retune", {{"workloads", list}}},
      {"verify", {{"kernel", "router"}}}, {"bench", {{"kernel", "router"}}}};
  CHECK(described["components"]["schemas"]["Submission"]["properties"]["kind"]["enum"].size() == least.size());
  for (const auto& [kind, request] : least) {
    CAPTURE(kind);
    std::string name = kind + "Request";
    name[0] = static_cast<char>(std::toupper(name[0]));
    const Json& schema = described["components"]["schemas"][name];
    CHECK(schema["additionalProperties"] == false);
    const Json canonical = Json::parse(parse_job_request(kind, request, {}, {}).canonical);
    CHECK(Schema(described).misfit(canonical, schema, kind) == "");
    for (const auto& [field, value] : canonical.items()) CHECK_MESSAGE(schema["properties"].contains(field), field);
    for (const auto& [field, property] : schema["properties"].items()) {
      CAPTURE(field);
      Json wrong = request;
      wrong[field] = nullptr;  // known, and not of its type
      try {
        parse_job_request(kind, wrong, {}, {});
        FAIL_CHECK("null is taken");
      } catch (const BadField& error) {
        CHECK(error.field() != "request");
      } catch (const BadInput& error) {
        CHECK(field == "workloads");
      }
    }
  }
  const std::uint64_t seed = (std::uint64_t{1} << 60) + 1;
  CHECK(Json::parse(parse_job_request("search", {{"seed", seed}}, {}, {}).canonical)["seed"] == seed);
}
