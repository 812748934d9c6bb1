#include "jobs/propose/variants.h"

#include <filesystem>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/lists.h"
#include "base/replace_file.h"
#include "base/resources.h"
#include "jobs/propose/messages.h"
#include "kernels/described/described_kernel.h"
#include "tuner/compile/sources.h"
#include "tuner/finals.h"
#include "tuner/plausibility.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNameDigits = 12;
constexpr const char* kVariantFile = "variant.cu";
constexpr const char* kSpaceKeys[] = {"let", "constraints", "bases", "defaults"};  // of parameters

std::string description_path(const std::string& kernel) { return "templates/" + kernel + "/kernel.json"; }

std::string text_of(const Document& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Takes the first values of its own parameters for the reference, which is never run: the device has the kernel's.
void replace_reference(nlohmann::json& description) {
  if (!description["reference"].contains("config")) return;
  description["reference"]["config"] = joined(description["parameters"], ",", [](const nlohmann::json& parameter) {
    return parameter.at("name").get<std::string>() + "=" + text_of(parameter.at("values").at(0));
  });
}

}  // namespace

std::string SourceVariants::why_none(const Session& session) {
  if (session.kernel() == nullptr || session.recording() != nullptr) return "a recording has no variants";
  const auto description = find_resource(description_path(session.kernel_name()));
  if (!description) return "variants are of kernels with a kernel.json";
  if (!session.kernel()->reference_computes() || description->find("\"files\"") != std::string::npos)
    return "variants are of kernels whose inputs are drawn";
  return "";
}

SourceVariants::Made SourceVariants::make(const Document& variant) {
  if (!variant.is_object() || !variant.contains("source") || !variant["source"].is_string())
    throw BadInput("a variant must be an object with a source");
  for (const auto& [key, ignored] : variant.items()) {
    static const std::set<std::string> kKeys = {"source",   "parameters", "let",    "constraints", "defaults",
                                                "launches", "scratch",    "macros", "configs"};
    if (!kKeys.contains(key)) throw BadInput("a variant has no '" + key.substr(0, 40) + "'");
  }
  Made made{.source = variant["source"].get<std::string>()};
  if (made.source.size() > kLongestSource) throw BadInput("a variant's source has at most 262,144 bytes");
  const std::string base = session_.kernel_name(), path = description_path(base);
  made.description = parse_json(read_resource(path), path);
  if (variant.contains("parameters"))
    for (const char* const key : kSpaceKeys) made.description.erase(key);
  for (const auto& [key, value] : variant.items())
    if (key != "source" && key != "configs") made.description[key] = parse_json(value.dump(), "a variant");
  made.name = "variant_" + digest(base + made.description.dump() + made.source).substr(0, kNameDigits);
  made.description["kernel"] = made.name;
  made.description["source"] = kVariantFile;  // the reference may be in the kernel's own
  try {
    replace_reference(made.description);
  } catch (const nlohmann::json::exception&) {
    throw BadInput("a variant's parameters must have names and values");
  }
  if (!names_.insert(made.name).second) throw BadInput("it was tried: " + made.name);
  const std::string text = made.description.dump();
  made.kernel = described_kernel(read_description(text, made.name, made.name));
  made.file = "templates/" + made.name + "/" + kVariantFile;
  add_resource(made.file, made.source);
  add_resource("spaces/" + made.name + ".json", text);
  return made;
}

std::vector<Config> SourceVariants::configs_of(const Document& variant, const Made& made) const {
  const Space space = Space::parse(made.description.dump(), made.name);
  std::vector<Config> configs;
  if (!variant.contains("configs")) {
    if (const auto usual = space.default_config(session_.environment())) return {*usual};
    throw BadInput("a variant needs configs, or a default that is legal");
  }
  if (!variant["configs"].is_array() || variant["configs"].empty() || variant["configs"].size() > kMostConfigs)
    throw BadInput("a variant has 1 to 8 configs");
  for (const Document& object : variant["configs"]) {
    if (!object.is_object()) throw BadInput("a variant's configs must be objects");
    std::string text;
    for (const auto& [name, value] : object.items()) text += (text.empty() ? "" : ",") + name + "=" + text_of(value);
    configs.push_back(space.parse_config(text, nullptr));
    const std::string why = space.why_illegal(configs.back(), session_.environment());
    if (!why.empty()) throw BadInput(configs.back().text() + ": " + why);
  }
  return configs;
}

Trial SourceVariants::run(const Made& made, const Config& config, BuildPtr& build) {
  Trial trial{.config = config};
  TrialResult& result = trial.result;
  try {
    collect_sources(made.file);
  } catch (const BadInput& error) {  // an include that it may not have
    result.outcome = Outcome::compile_failed;
    result.message = error.what();
    return trial;
  }
  Attempt attempt = session_.try_compile(made.kernel->plan(config, session_.problem(), session_.info().limits), config);
  build = attempt.candidate.build;
  result.outcome = attempt.outcome;
  result.message = attempt.message;
  if (attempt.outcome != Outcome::ok) return trial;
  MeasurePolicy policy = request_.policy;
  policy.prove_below_us = best_ ? best_->time_us : std::numeric_limits<double>::infinity();
  result = session_.device().run(attempt.candidate, policy);
  reject_impossible(result, request_.least_us);
  const double time = result.measurement.median_us;
  if (result.outcome == Outcome::ok && (!best_ || time < best_->time_us))
    best_ = Best{made, std::move(attempt.candidate), time};
  return trial;
}

std::vector<Document> SourceVariants::try_variant(const Document& variant) {
  if (names_.size() == kMost) throw BadInput("a search has at most 64 variants");
  const Made made = make(variant);
  std::vector<Document> told;
  for (const Config& config : configs_of(variant, made)) {
    BuildPtr build;
    const Trial trial = run(made, config, build);
    told.push_back(tell_document(trial, build.get(), request_.objective, session_.subject().floor));
    told.back()["variant"] = made.name;
  }
  return told;
}

std::optional<VariantDuel> SourceVariants::meet(const TuneResult& result) {
  if (!best_ || !result.best || result.winner.build == nullptr || result.interrupted) return std::nullopt;
  Device& device = session_.device();
  std::vector<TrialResult> met =
      device.duel({result.winner, best_->candidate},
                  {.rounds = request_.duel_rounds, .timing = request_.policy.timing, .proves = true});
  for (TrialResult& one : met) reject_impossible(one, request_.least_us);
  VariantDuel duel{.name = best_->made.name,
                   .source_digest = source_digest(best_->made.file),
                   .config = best_->candidate.config,
                   .result = met[1],
                   .winner = met[0]};
  const bool is_faster =
      met[1].outcome == Outcome::ok &&
      (met[0].outcome != Outcome::ok || met[1].measurement.median_us * (1 + kTie) < met[0].measurement.median_us);
  if (!is_faster) return duel;
  const TrialResult check = device.verify(best_->candidate, ~request_.seed, request_.policy.time_limit_s);
  duel.wins = check.outcome == Outcome::ok;
  if (duel.wins) {
    duel.folder = keep(*best_);
  } else {
    duel.result.outcome = check.outcome;
    duel.result.message = "on inputs from another seed: " + check.message;
  }
  return duel;
}

// A kernel's folder beside the cache, with its best configuration as the default.
std::string SourceVariants::keep(const Best& best) const {
  const std::string cache = session_.subject().cache;
  if (cache.empty()) return "";
  const fs::path folder = fs::path(cache).parent_path() / "variants" / best.made.name;
  nlohmann::json description = best.made.description;
  const std::string config = assignment_document(best.candidate.config).dump();
  description["defaults"] = nlohmann::json::array({{{"config", parse_json(config, "a configuration")}}});
  const std::string base = "templates/" + session_.kernel_name() + "/";
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw BrokenEnvironment("cannot make " + folder.string() + ": " + failed.message());
  for (const std::string& path : list_resources(base)) {
    const std::string name = path.substr(base.size());
    if (name.find('/') == std::string::npos && (name.ends_with(".cu") || name.ends_with(".cuh")))
      replace_file(folder / name, read_resource(path));
  }
  replace_file(folder / kVariantFile, best.made.source);
  replace_file(folder / "kernel.json", description.dump(1) + "\n");
  return folder.string();
}

}  // namespace moetune
