// The scripted driver's queue of launches: whether it is full, what was put on it, and the events between. Thread-safe.
#pragma once

#include <cuda.h>

#include <string>

#include "tests/fake_cuda/launch_record.h"

namespace fake_cuda {

// As a launch waits while the queue is full; ten seconds at most, so that a test ends.
void wait_for_room(CUstream stream);
// Called by one thread at a time. Fills in who launched what.
void record_launch(const std::string& kernel, CUstream stream, LaunchRecord record);

// What tests call by name: see README.md.
int record_launches(LaunchRecord* records, int capacity);
int fill_queue(CUstream stream);
int count_waiting();

CUresult event_create(CUevent* event, unsigned flags);
CUresult event_destroy(CUevent event);
CUresult event_record(CUevent event, CUstream stream);
CUresult event_elapsed_time(float* milliseconds, CUevent begin, CUevent end);

}  // namespace fake_cuda
