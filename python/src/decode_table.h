// The families and workspaces that moetune.torch has opened, looked up by what a call's tensors look like.
//
// One table a process, never destroyed: captured graphs use what it holds until the process ends. Thread-safe: look-ups
// share a lock, additions take it alone.
#pragma once

#include <deque>
#include <optional>
#include <shared_mutex>

#include "handles.h"

namespace moetune::python {

// The tensors of one call, in the order of MOETUNE_DECODE_Q and its followers.
constexpr int kDecodeTensors = MOETUNE_DECODE_V_SCALE + 1;
using DecodeTensors = const DLTensor* [kDecodeTensors];

// What decides a call's family, and its device.
struct DecodeKey {
  int64_t device, group, head_dim, page, window, q_len;
  DLDataType dtype, kv_dtype;
  bool heads_first, lse, sinks, head_scales;

  bool operator==(const DecodeKey& other) const;
  // `name=value` pairs for Runtime.family.
  std::string specialization() const;
};

// Throws InvalidArgument for tensors that no family takes.
DecodeKey decode_key(const DecodeTensors& tensors, bool heads_first, int64_t window);

class DecodeTable {
 public:
  static DecodeTable& instance();

  std::optional<Family> family(const DecodeKey& key) const;
  void add(const DecodeKey& key, const Family& family);  // replaces one of an equal key
  void forget(int64_t device);                           // the families, not the workspaces

  Memory workspace(int64_t device, void* stream) const;  // empty if there is none
  // A tensor of bytes whose counters are zero; earlier ones of the stream stay allocated.
  void add_workspace(int64_t device, void* stream, const ffi::Tensor& tensor);

 private:
  struct OpenedFamily {
    DecodeKey key;
    Family family;
  };
  struct Workspace {
    int64_t device;
    void* stream;
    Memory memory;
  };

  mutable std::shared_mutex mutex_;
  std::vector<OpenedFamily> families_;
  std::vector<Workspace> workspaces_;
  std::deque<ffi::Tensor> kept_;
};

}  // namespace moetune::python
