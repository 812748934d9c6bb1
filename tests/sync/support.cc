#include "tests/sync/support.h"

#include <cstdlib>
#include <fstream>

#include "base/ed25519.h"
#include "base/regular_file.h"
#include "cache/pack_signature.h"
#include "tests/paths.h"

namespace moetune::testing {

namespace fs = std::filesystem;

const std::string& real_pack() {
  static const std::string bytes = read_regular_file(paths::source("packs/h200.pack"), kMostPackBytes);
  return bytes;
}

// SQLite's header holds the version of the library that wrote last, in bytes 96 to 99, which nothing reads.
const std::string& other_pack() {
  static const std::string bytes = [] {
    std::string altered = real_pack();
    altered[99] ^= 1;
    return altered;
  }();
  return bytes;
}

void SyncFolder::write(const std::string& name, const std::string& bytes) const {
  std::ofstream(path() / name, std::ios::binary) << bytes;
}

std::string SyncFolder::read(const std::string& name) const {
  return find_regular_file(path() / name, kMostPackBytes).value_or("");
}

void SyncFolder::write_misses(const std::string& name, const std::map<std::string, int>& counts) const {
  nlohmann::json misses = nlohmann::json::array();
  for (const auto& [problem, count] : counts)
    misses.push_back({{"kernel", "decode_attention"}, {"problem", problem}, {"count", count}});
  write(name, nlohmann::json{{"moetune_misses", 1}, {"hardware", "NVIDIA H200"}, {"misses", misses}}.dump());
}

std::vector<std::string> SyncFolder::visible() const {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with('.')) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

nlohmann::json FakeService::list() const {
  nlohmann::json all = nlohmann::json::array();
  for (const auto& [name, bytes] : packs)
    all.push_back({{"name", name},
                   {"hardware", "NVIDIA H200"},
                   {"bytes", bytes.size()},
                   {"sha256", sha256_hex(bytes)},
                   {"signed", signatures.contains(name)}});
  return {{"packs", all}};
}

std::string FakeService::answer(const ScriptedServer::Request& request) const {
  if (const auto given = answers.find(request.path); given != answers.end()) return given->second;
  if (request.path == "/v1/misses") return http_answer(202, R"({"accepted":1000,"queued":1,"known":0})");
  if (request.path == "/v1/packs") {
    if (request.has("If-None-Match: " + etag)) return http_answer(304, "");
    return http_answer(200, list().dump(), "ETag: " + etag + "\r\n");
  }
  for (const auto& [name, bytes] : packs) {
    if (request.path == "/v1/packs/" + name) return http_answer(200, bytes);
  }
  for (const auto& [name, bytes] : signatures) {
    if (request.path == "/v1/packs/" + name + "/signature") return http_answer(200, bytes);
  }
  return http_answer(404, R"({"error":{"code":"not_found","message":"There is no such thing."}})");
}

SyncRound sync_once(const ScriptedServer& server, const SyncFolder& folder, const std::vector<std::string>& keys) {
  SyncRound last;
  const SyncRequest request{
      .service = {.url = server.url()}, .folder = folder.path(), .trusted_keys = keys, .once = true};
  sync(request, [&](const SyncRound& round) { last = round; }, {});
  return last;
}

}  // namespace moetune::testing
