// A service as sync sees one, with packs that a test gives it, and a folder that goes away.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "sync/sync.h"
#include "tests/sync/scripted_server.h"
#include "tests/temporary_folder.h"

namespace moetune::testing {

// A real pack, as the project ships it.
const std::string& real_pack();
// A sound pack of the same winners with other bytes.
const std::string& other_pack();

struct SyncFolder : TemporaryFolder {
  void write(const std::string& name, const std::string& bytes) const;
  std::string read(const std::string& name) const;  // "" if there is none
  void write_misses(const std::string& name, const std::map<std::string, int>& counts) const;
  std::vector<std::string> visible() const;  // names that begin with no dot, sorted
};

// What a test lets a service hold; how it answers may be changed path by path.
struct FakeService {
  std::map<std::string, std::string> packs, signatures;  // by name
  std::map<std::string, std::string> answers;            // whole answers by path, which come first
  std::string etag = "\"1\"";

  nlohmann::json list() const;
  std::string answer(const ScriptedServer::Request& request) const;
};

// One round with a server that answers as the service does.
SyncRound sync_once(const ScriptedServer& server, const SyncFolder& folder, const std::vector<std::string>& keys = {});

}  // namespace moetune::testing
