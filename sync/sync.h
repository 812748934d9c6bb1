// `moetune sync`: the sidecar of an inference process, which itself has no network. It posts the miss files of a
// folder to a service and installs the service's packs there; the process's moetune_refresh takes them.
//
// Several may work on one folder: a round holds the lock `.moetune-sync.lock`, and one that finds it held waits for its
// next turn. A round that fails leaves what was there, and the next comes later and later, up to a quarter of an hour.
// Runs on the caller's thread. Errors: BadInput for a request that cannot be; all else is a round's.
#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "sync/service_client.h"

namespace moetune {

struct SyncRequest {
  ServiceAddress service;
  std::filesystem::path folder;
  std::vector<std::string> trusted_keys;  // as TrustedKeys takes them
  double every_s = 60;
  bool once = false;
};

struct SyncRound {
  std::size_t miss_files = 0, misses = 0;  // posted
  std::vector<std::string> installed;      // names of packs
  std::vector<std::string> warnings;
  std::string failure;  // "" for a round that came to its end
  double next_s = 0;    // until the next round
};

using SyncListener = std::function<void(const SyncRound&)>;

// Round after round until `stop` is requested, or one with `once`. Reports each. Returns whether the last round failed.
bool sync(const SyncRequest& request, const SyncListener& listener, std::stop_token stop);

// How long to wait after so many failures in a row: twice as long each time, a random part of it left out, so that the
// sidecars of a fleet do not come back all at once. `random` is from 0 to 1.
double backoff_s(double every_s, int failures, double random);

}  // namespace moetune
