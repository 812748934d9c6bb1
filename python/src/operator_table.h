// The families and workspaces that moetune.torch has opened, looked up by what a call's tensors look like.
//
// A workspace is a stream's, by what its handle means to the calling thread: cudaStreamPerThread is another stream in
// each, and a thread's number is never another's, so that no thread takes over what an ended one's work may still use.
// cudaStreamLegacy is the default stream.
//
// One table a process, never destroyed: captured graphs use what it holds until the process ends. Thread-safe: look-ups
// share a lock, additions take it alone; nobody holds it longer.
#pragma once

#include <deque>
#include <optional>
#include <shared_mutex>

#include "operator.h"

namespace moetune::python {

class OperatorTable {
 public:
  static OperatorTable& instance();

  // The opened family and the workspace of a call.
  struct Look {
    std::optional<Family> family;
    Memory workspace;  // empty if there is none
  };

  Look look(const FamilyKey& key, void* stream) const;
  void add(const FamilyKey& key, const Family& family);  // replaces one of an equal key
  void forget(int64_t device);                           // the families, not the workspaces

  Memory workspace(int64_t device, void* stream) const;
  // A tensor of bytes whose counters are zero, for the calling thread's meaning of the stream; earlier ones stay
  // allocated.
  void add_workspace(int64_t device, void* stream, const ffi::Tensor& tensor);

 private:
  struct OpenedFamily {
    FamilyKey key;
    Family family;
  };
  struct Stream {
    Stream(int64_t of, void* given);
    bool operator==(const Stream&) const = default;

    int64_t device;
    void* handle;
    uint64_t thread;  // 0 if it is the same stream in all
  };
  struct Workspace {
    Stream stream;
    Memory memory;
  };

  Memory workspace_of(const Stream& stream) const;  // under the lock

  mutable std::shared_mutex mutex_;
  std::vector<OpenedFamily> families_;
  std::vector<Workspace> workspaces_;
  std::deque<ffi::Tensor> kept_;
};

}  // namespace moetune::python
