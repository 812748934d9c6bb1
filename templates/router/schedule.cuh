// How large blocks are, how those of the grid share the work (router.cu and ../route_plan/route_plan.cu say what each
// schedule does), and when padding is written.
//
// Macros: WARPS (of a block), SCHEDULE (a Schedule), PAD (a Pad).
#pragma once

#include "templates/common/types.cuh"

constexpr int kWarps = WARPS, kThreads = kWarps * kWarpSize;

enum class Schedule { rows, block, split, cluster, barrier, apart };
constexpr Schedule kSchedule = Schedule::SCHEDULE;

// first: every place counts as padding before the tokens are routed, while memory is idle, and slots overwrite it,
// if a barrier of the block or the end of a kernel comes between.
// last: what no slot took is padded in the end.
enum class Pad { first, last };
constexpr Pad kPad = Pad::PAD;
static_assert(kPad == Pad::last || kSchedule != Schedule::barrier, "a block's padding could land on others' places");
