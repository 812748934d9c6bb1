// A workload of a night on a device, with the cache's winner and trials. Owns its session; for one thread.
#pragma once

#include <functional>
#include <optional>

#include "jobs/search_job.h"
#include "jobs/session/session.h"
#include "jobs/stored/stored_results.h"
#include "retune/rework.h"

namespace moetune {

class SessionSubject : public ReworkSubject {
 public:
  // `request` is a search of the workload; its budget is that of a whole search. `resumes`: its search was begun under
  // today's templates, compiler and driver, and its trials hold. `begun` is called when a search is about to begin and
  // trials of earlier conditions are gone. `opened` is the device if it is open
  // already. Throws as choose_device and Session do.
  SessionSubject(const SearchRequest& request, bool resumes, std::function<void(Remedy)> begun,
                 const JobContext& context, std::optional<DeviceChoice> opened = {});

  Device& device() override { return session_.device(); }
  const LegalSpace& space() override { return session_.space(); }
  std::optional<ConfigId> default_id() override;
  Timing timing() override { return session_.key().timing; }
  double least_us() override { return session_.least_us(); }
  std::optional<Candidate> incumbent() override;
  bool is_proven() override;
  std::vector<OldTrial> old_trials() override;
  std::vector<std::string> earlier() override;
  std::optional<Candidate> prepare(ConfigId id) override;
  void open_device() override;
  TuneResult search(Remedy remedy) override;
  void store(const TuneResult& result) override;
  bool is_incumbent(const TuneResult& result) override;
  // The winner's configuration; "" if there is none.
  std::string served() const { return stored_ ? stored_->winner->config : ""; }

 private:
  void find_stored();
  LegalSpace near_winner();

  SearchRequest request_;
  bool resumes_;
  std::function<void(Remedy)> begun_;
  JobContext context_;
  Session session_;
  std::optional<StoredResult> stored_;
};

}  // namespace moetune
