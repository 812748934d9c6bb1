#include "jobs/stored/served_families.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "base/environment.h"
#include "base/error.h"
#include "base/json.h"
#include "jobs/range/served_table.h"
#include "kernels/registry.h"
#include "runtime/layers.h"
#include "runtime/runtime.h"
#include "tuner/process/child_main.h"
#include "tuner/process/child_process.h"

namespace moetune {
namespace {

using Json = nlohmann::json;

constexpr const char* kServingVerb = "serving";
constexpr std::chrono::minutes kOpeningLimit{10};
constexpr std::int64_t kFullBatch = std::int64_t{1} << 40;  // tokens: no batch has more, so none is ragged

// The range tables of a family that were measured on some hardware.
std::vector<std::unique_ptr<const ServedTable>> tables_of(const Kernel& kernel, const StoredFamily& stored,
                                                          const std::string& hardware) {
  std::vector<std::unique_ptr<const ServedTable>> tables;
  for (const StoredRange& range : stored.ranges) {
    if (range.record.key.hardware.text() != hardware) continue;
    try {
      auto table = std::make_unique<const ServedTable>(kernel, range.record);
      if (table->is_served()) tables.push_back(std::move(table));
    } catch (const BadInput&) {  // of another version, which the runtime does not take either
    }
  }
  return tables;
}

void count_shapes(Json& served, const Kernel& kernel, const Family& family, Layers& layers,
                  const std::vector<std::string>& shapes) {
  const StoredFamily stored = layers.family(kernel.name(), family.specialization(), false);
  std::size_t tuned = 0;
  std::map<std::string, std::vector<std::unique_ptr<const ServedTable>>> tables;  // by hardware
  for (const std::string& shape : shapes) {
    const Problem problem = kernel.parse(shape);
    try {
      const Choice choice = family.pick(kernel.extents_of(problem), kFullBatch);
      const ChoiceSource& source = family.entry(choice).source;
      served["hardware"] = source.hardware;
      served["inherited"] = source.inherited;
      const auto [found, is_new] = tables.try_emplace(source.hardware);
      if (is_new) found->second = tables_of(kernel, stored, source.hardware);
      const bool is_between =
          choice.kind == ChoiceKind::by_default &&
          std::ranges::any_of(found->second, [&](const auto& table) { return table->holds(problem); });
      if (choice.kind == ChoiceKind::exact || choice.kind == ChoiceKind::nearest || is_between) ++tuned;
    } catch (const RuntimeError& error) {
      if (error.status != MOETUNE_NOT_TUNED) throw;
    }
  }
  served["tuned"] = tuned;
}

Json served_by(const std::string& why_none) {
  return {{"why_none", why_none}, {"tuned", 0}, {"hardware", ""}, {"inherited", false}};
}

Json open_one(Runtime& runtime, Layers& layers, const Json& asked) {
  const auto name = asked.at("kernel").get<std::string>();
  const Kernel& kernel = find_kernel(name);
  const Problem problem = kernel.parse(asked.at("problem").get<std::string>());
  Json served = served_by("");
  try {
    const Family& family = runtime.family(name, kernel.specialization(problem).text());
    count_shapes(served, kernel, family, layers, asked.at("shapes").get<std::vector<std::string>>());
  } catch (const RuntimeError& error) {
    served["why_none"] = error.status == MOETUNE_NOT_TUNED ? "nothing is tuned for it" : std::string(error.what());
  } catch (const BadInput& error) {
    served["why_none"] = error.what();
  }
  return served;
}

std::vector<std::filesystem::path> packs_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> packs;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".pack") packs.push_back(entry.path());
  }
  std::sort(packs.begin(), packs.end());
  return packs;
}

// The reason of each file that cannot be opened, a line each.
std::string why_unopened(const std::vector<std::filesystem::path>& files, const TrustedKeys& trusted) {
  std::string reasons;
  for (const std::filesystem::path& named : files) {
    std::vector<std::filesystem::path> each = packs_in(named);
    if (each.empty()) each = {named};
    for (const std::filesystem::path& file : each) try {
        const Layers alone({file}, trusted);
      } catch (const BrokenEnvironment& error) {
        reasons.append(error.what()).append("\n");
      }
  }
  return reasons;
}

// Variables with which a server would launch something else than it does without.
std::string overrides_set() {
  std::string warnings;
  for (const char* name : {"MOETUNE_RUNTIME", "MOETUNE_PIN"}) {
    if (environment_variable(name) != nullptr)
      warnings.append(name).append(" is set: this is what a server serves that runs with it\n");
  }
  return warnings;
}

Json open_all(const Json& request) {
  // A slice of a divided GPU is the one device that the driver shows then.
  if (const auto slice = request.at("slice").get<std::string>(); !slice.empty())
    setenv("CUDA_VISIBLE_DEVICES", slice.c_str(), 1);
  std::vector<std::filesystem::path> files;
  for (const Json& file : request.at("files")) files.emplace_back(file.get<std::string>());
  const TrustedKeys trusted = trusted_keys({});
  std::optional<Layers> layers;
  Json families = Json::array();
  try {
    layers.emplace(files, trusted);
  } catch (const BrokenEnvironment&) {
    for (std::size_t i = 0; i < request.at("families").size(); ++i)
      families.push_back(served_by("no cache and no pack can be read"));
    return {{"families", std::move(families)}, {"warnings", why_unopened(files, trusted)}};
  }
  Runtime runtime({.paths = files, .device = request.at("ordinal").get<int>()});
  for (const Json& one : request.at("families")) families.push_back(open_one(runtime, *layers, one));
  return {{"families", std::move(families)}, {"warnings", overrides_set() + runtime.warnings()}};
}

Message answer_request(const Message& request) {
  try {
    return {open_all(parse_json(request.header, "the families to open"))
                .dump(-1, ' ', false, Json::error_handler_t::replace),
            {}};
  } catch (const std::exception& error) {
    const Json broken = {{"error", error.what()}};
    return {broken.dump(-1, ' ', false, Json::error_handler_t::replace), {}};
  }
}

// Null if `stop` is requested before the answer.
Json ask_child(const Json& request, const std::stop_token& stop) {
  ChildProcess child({.verb = kServingVerb, .name = "the process that opens families", .executable = ""});
  const ChildProcess::Reply reply = child.request({request.dump(), {}}, kOpeningLimit, stop);
  if (reply.status == ChildProcess::Reply::Status::stopped) return nullptr;
  if (reply.status == ChildProcess::Reply::Status::late)
    throw BrokenEnvironment("the driver did not open what is stored within ten minutes");
  if (reply.status != ChildProcess::Reply::Status::answered) throw BrokenEnvironment(reply.cause);
  Json answer = parse_json(reply.message.header, "the families that were opened");
  if (answer.contains("error"))
    throw BrokenEnvironment("opening what is stored: " + answer.at("error").get<std::string>());
  return answer;
}

}  // namespace

std::vector<std::filesystem::path> installed_packs() {
  std::vector<std::filesystem::path> packs;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"packs", "../lib/packs", "../share/moetune/packs", "../../packs"}) {
    for (std::filesystem::path& pack : packs_in((folder / place).lexically_normal())) packs.push_back(std::move(pack));
  }
  return packs;
}

std::optional<ServedFamilies> find_served(const std::vector<std::filesystem::path>& files, const DeviceInfo& gpu,
                                          const std::vector<AskedFamily>& asked, std::stop_token stop) {
  ServedFamilies found;
  std::vector<ServedFamily>& all = found.families;
  Json families = Json::array(), names = Json::array();
  for (const AskedFamily& one : asked) {
    const Kernel& kernel = find_kernel(one.kernel);
    const Problem problem = kernel.parse(one.problem);
    all.push_back({.family = kernel.specialization(problem).text(),
                   .why_none = "there is no cache and no pack",
                   .shapes = one.shapes.size()});
    families.push_back({{"kernel", one.kernel}, {"problem", one.problem}, {"shapes", one.shapes}});
  }
  if (files.empty() || asked.empty()) return found;
  for (const std::filesystem::path& file : files) names.push_back(file.string());
  const bool is_slice = !gpu.id.starts_with("cuda:");
  const Json answer = ask_child({{"slice", is_slice ? gpu.id : ""},
                                 {"ordinal", is_slice ? 0 : std::atoi(gpu.id.c_str() + 5)},
                                 {"files", std::move(names)},
                                 {"families", std::move(families)}},
                                stop);
  if (answer.is_null()) return std::nullopt;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Json& served = answer.at("families").at(i);
    all[i].why_none = served.at("why_none").get<std::string>();
    all[i].tuned = served.at("tuned").get<std::size_t>();
    all[i].hardware = served.at("hardware").get<std::string>();
    all[i].inherited = served.at("inherited").get<bool>();
  }
  std::istringstream warnings(answer.at("warnings").get<std::string>());
  for (std::string line; std::getline(warnings, line);) found.warnings.push_back(line);
  return found;
}

bool is_serving_call(int argc, char** argv, int& status) {
  return serve_as_child(
      argc, argv, kServingVerb, [] { return ChildHandler(answer_request); }, status);
}

}  // namespace moetune
