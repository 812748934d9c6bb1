#include "tests/paths.h"

namespace paths {

std::string source(const std::string& below) {
  return below.empty() ? MOETUNE_SOURCE_DIR : MOETUNE_SOURCE_DIR "/" + below;
}

const char* arrows() { return MOETUNE_ARROWS; }
const char* fake_libcuda() { return MOETUNE_FAKE_LIBCUDA; }
const char* fake_libnvml() { return MOETUNE_FAKE_LIBNVML; }
const char* fake_nvtx() { return MOETUNE_FAKE_NVTX_LIBRARY; }
const char* fake_nvrtc() { return MOETUNE_FAKE_NVRTC; }
const char* no_locks() { return MOETUNE_NO_LOCKS; }
const char* serving_loop() { return MOETUNE_SERVING_LOOP; }

}  // namespace paths
