#include "decode_launch.h"

#include <mutex>

namespace moetune::python {
namespace {

using Use = RuntimeObj::Use;

// Never destroyed: the process may end while other threads still launch.
ffi::Function& helper() {
  static auto* const kept = new ffi::Function;
  return *kept;
}

moetune_choice choose(const DecodeRequest& request, const FamilyObj& family, const int64_t* most) {
  const int64_t stated = request.max_context, last = stated > 0 ? stated : most[2];
  if (stated > most[2])
    fail(MOETUNE_INVALID_ARGUMENT, "decode_attention: max_context is " + std::to_string(stated) +
                                       "; page_table and cache have room for " + std::to_string(most[2]));
  int64_t extents[] = {most[0], most[1], last};
  moetune_choice choice;
  if (request.min_context == 0 && !request.capturing) {
    check(moetune_pick(family.handle, extents, 3, request.total_tokens, &choice));
    return choice;
  }
  extents[2] = request.min_context != 0 ? request.min_context : 1;
  check(moetune_pick_range(family.handle, extents, 3, last, &choice));
  return choice;
}

Step attempt(const DecodeRequest& request, const DecodeKey& key) {
  const auto family = DecodeTable::instance().family(key);
  if (!family.has_value() || (*family)->runtime->is_closed()) return kOpenFamily;
  const Use use(*(*family)->runtime.get());
  moetune_arguments arguments;
  int64_t most[MOETUNE_MAX_EXTENTS];
  size_t count = 0;
  check(moetune_bind((*family)->handle, request.tensors, kDecodeTensors,
                     request.heads_first ? "layout=heads_first" : "layout=tokens_first", &arguments, most,
                     &count));
  if (most[0] == 0) return kLaunched;  // no sequences
  arguments.reals[MOETUNE_DECODE_SCALE] = request.scale;
  const moetune_choice choice = choose(request, *family->get(), most);
  const Memory workspace = DecodeTable::instance().workspace(key.device, request.stream);
  if (workspace.address == nullptr) return kGrowWorkspace;
  const moetune_status status = moetune_launch((*family)->handle, &choice, &arguments, workspace.address,
                                               workspace.bytes, request.stream);
  if (status == MOETUNE_OUT_OF_MEMORY) {
    const std::string sentence = moetune_last_error();
    size_t needed = 0;
    if (moetune_choice_workspace((*family)->handle, &choice, &needed) == MOETUNE_OK &&
        needed > workspace.bytes)
      return kGrowWorkspace;
    fail(status, sentence);
  }
  check(status);
  return kLaunched;
}

void ask_helper(Step step, const DecodeRequest& request, const DecodeKey& key) {
  const DLTensor& q = *request.tensors[MOETUNE_DECODE_Q];
  const DLTensor& k = *request.tensors[MOETUNE_DECODE_K];
  const DLTensor* table = request.tensors[MOETUNE_DECODE_PAGE_TABLE];
  const int64_t kv_heads = k.shape[request.heads_first ? 1 : 2],
                tokens = k.shape[request.heads_first ? 2 : 1];
  const int64_t capacity = table != nullptr && table->ndim == 2 ? tokens * table->shape[1] : tokens;
  const ffi::Any answer =
      helper()(static_cast<int64_t>(step), key.device, ffi::String(key.specialization()), q.shape[0],
               kv_heads, request.max_context > 0 ? request.max_context : capacity,
               reinterpret_cast<int64_t>(request.stream), request.capturing);
  if (step != kOpenFamily) return;
  if (const auto family = answer.as<Family>()) DecodeTable::instance().add(key, *family);
}

}  // namespace

void set_decode_helper(ffi::Function given) { helper() = std::move(given); }

void launch_decode(const DecodeRequest& request) {
  const DecodeKey key = decode_key(request.tensors, request.heads_first, request.window);
  for (int tries = 0; tries < 4; ++tries) {
    const Step step = attempt(request, key);
    if (step == kLaunched) return;
    ask_helper(step, request, key);
  }
  fail(MOETUNE_OUT_OF_MEMORY, "decode_attention: the workspace is too small for a stored choice");
}

}  // namespace moetune::python
