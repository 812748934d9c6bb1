// The worker's state between two requests, and its answer to each: the driver, one GPU's context, one open problem.
//
// Lives in the worker; one thread. handle() throws nothing that a request or a candidate can cause: it is in
// the reply.
#pragma once

#include <memory>

#include "tuner/process/protocol.h"

namespace moetune {

class WorkerSession {
 public:
  WorkerSession();
  ~WorkerSession();

  Message handle(const Message& request);

 private:
  struct Gpu;
  struct OpenProblem;

  Message dispatch(const Message& request);
  void start_driver(const std::string& visible);  // "": what the environment says
  Message hello(const std::string& visible);
  Message open(const Message& request);
  Message answer_others();
  Message run(const Message& request);
  struct Run;
  bool validate(Run& run, bool after_previous_run);
  void measure(Run& run);
  bool judge_measured(Run& run);
  Message duel(const Message& request);
  Message canary();
  Message measure_machine();
  Message fetch(const Message& request);
  OpenProblem& opened();

  bool driver_started_ = false;
  std::unique_ptr<Gpu> gpu_;
  std::unique_ptr<OpenProblem> problem_;
};

}  // namespace moetune
