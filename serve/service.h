// A whole service: queue, workers, HTTP. One process a host; it holds the lock of each of its GPUs
// (retune/night_lock.h) for as long as it lives, so that no night of another process measures beside it, that of its
// queue, and that of the folder into which it publishes.
//
// Runs from its construction until it is destroyed; what runs then goes back into the queue. Errors: BadField for an
// option, BrokenEnvironment for the machine, for a GPU that another service or night has, for a queue or a folder that
// another service has, and for an address in use.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "http/http_server.h"
#include "jobs/session/stores.h"
#include "serve/api/api.h"

namespace moetune {

struct ServiceOptions {
  HttpServerOptions http;
  CacheChoice cache;
  std::filesystem::path queue;       // empty: beside the cache, "moetune.db-jobs"
  std::vector<std::string> devices;  // as in JobTarget; empty: every GPU, or the shipped recordings if there is none
  std::string token_file;            // empty: no tokens
  std::string packs;                 // the folder that is served; empty: none
  std::string sign_key;              // of `moetune cache new-key`, for service.pack; empty: it is not signed
  bool publish = true;               // write the cache's winners into that folder, at the start and after each job
  std::uint64_t most_pack_bytes = kMostPackBytes;  // that are served
  std::set<std::string> hosts;                     // names of this service beside localhost
  bool behind_tls_proxy = false;                   // somebody else adds TLS
  JobLimits limits;
  JobQueue::Limits jobs;                         // of the queue
  QuietPolicy quiet;                             // of what was missed
  std::uint64_t process_bytes = 16'000'000'000;  // that one worker or compiler may hold; 0: no limit
  ApiLimits api;
  std::uint64_t threads = 0;  // of each job's compiler; 0: all cores shared by the devices
};

class Service {
 public:
  explicit Service(ServiceOptions options);
  ~Service();
  Service(const Service&) = delete;

  std::string url() const;  // "http://127.0.0.1:7878"
  const std::vector<std::string>& devices() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// "127.0.0.1:7878", "[::1]:0" into host and port. Throws BadField.
void set_listen(HttpServerOptions& http, const std::string& text);

}  // namespace moetune
