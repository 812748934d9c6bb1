#include "tests/fake_cuda/queue.h"

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "tests/fake_cuda/fake_cuda.h"

namespace fake_cuda {
namespace {

struct FakeEvent {
  double at_us = 0;
};

struct Records {
  std::mutex mutex;
  LaunchRecord* to = nullptr;
  int capacity = 0, count = 0;
};
Records records;
std::atomic<bool> recording{false};

std::atomic<CUstream> full{nullptr};
std::atomic<int> waiting{0};

bool is_full(CUstream stream) {
  if (stream != nullptr && full == stream) return true;
  const char* const file = std::getenv("MOETUNE_FAKE_FULL");
  return file != nullptr && ::access(file, F_OK) == 0;
}

CUresult sticky() { return static_cast<CUresult>(machine.sticky); }

}  // namespace

void wait_for_room(CUstream stream) {
  constexpr int kMost = 120'000;  // ms; on a busy machine each yield of a recorded launch takes a while
  if (recording) ::sched_yield();
  ++waiting;
  for (int i = 0; i < kMost && is_full(stream); ++i) ::usleep(1000);
  --waiting;
}

void record_launch(const std::string& kernel, CUstream stream, LaunchRecord record) {
  const std::lock_guard lock(records.mutex);
  if (records.count == records.capacity) return;
  record.stream = stream;
  record.thread = ::gettid();
  kernel.copy(record.kernel.data(), record.kernel.size() - 1);
  records.to[records.count++] = record;
}

int record_launches(LaunchRecord* to, int capacity) {
  const std::lock_guard lock(records.mutex);
  const int before = std::exchange(records.count, 0);
  records.to = to;
  records.capacity = capacity;
  recording = capacity > 0;
  return before;
}

int fill_queue(CUstream stream) {
  full = stream;
  return 0;
}

int count_waiting() { return waiting; }

CUresult event_create(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(new FakeEvent);
  return sticky();
}

CUresult event_destroy(CUevent event) {
  delete reinterpret_cast<FakeEvent*>(event);
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream) {
  reinterpret_cast<FakeEvent*>(event)->at_us = machine.clock_us;
  return sticky();
}

CUresult event_elapsed_time(float* milliseconds, CUevent begin, CUevent end) {
  *milliseconds =
      static_cast<float>((reinterpret_cast<FakeEvent*>(end)->at_us - reinterpret_cast<FakeEvent*>(begin)->at_us) / 1e3);
  return sticky();
}

}  // namespace fake_cuda
