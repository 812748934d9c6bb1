#include "cache/pack_manifest.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"

namespace moetune {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::size_t kMostKernels = 256;

}  // namespace

const PackFamily* PackManifest::find(std::string_view kernel, std::string_view family) const {
  for (const PackFamily& one : families) {
    if (one.kernel == kernel && one.family == family) return &one;
  }
  return nullptr;
}

std::string PackManifest::text() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PackFamily& one : families) {
    list.push_back({{"kernel", one.kernel}, {"family", one.family}, {"winners", one.winners}, {"digest", one.digest}});
  }
  nlohmann::ordered_json document = {{"moetune_pack", kVersion}, {"made_by", made_by}, {"families", std::move(list)}};
  if (!kernels.empty()) document["kernels"] = kernels;
  return document.dump();
}

PackManifest PackManifest::parse(std::string_view text, std::string_view what) {
  const nlohmann::json document = parse_json(text, what);
  try {
    const auto version = document.at("moetune_pack").get<std::int64_t>();
    if (version != kVersion)
      throw BadInput(std::string(what) + " is of version " + std::to_string(version) + "; this moetune reads " +
                     std::to_string(kVersion));
    PackManifest manifest;
    document.at("made_by").get_to(manifest.made_by);
    for (const nlohmann::json& one : document.at("families")) {
      manifest.families.push_back({one.at("kernel").get<std::string>(), one.at("family").get<std::string>(),
                                   one.at("winners").get<std::int64_t>(), one.at("digest").get<std::string>()});
    }
    if (const auto found = document.find("kernels"); found != document.end()) found->get_to(manifest.kernels);
    if (manifest.kernels.size() > kMostKernels)
      throw BadInput(std::string(what) + " describes more than " + std::to_string(kMostKernels) + " kernels");
    return manifest;
  } catch (const nlohmann::json::exception& error) {
    throw BadInput(std::string(what) + " is none of moetune's: " + json_error_text(error));
  }
}

}  // namespace moetune
