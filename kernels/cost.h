// The least that any implementation of a problem must do: what its floor is computed from (tuner/ceilings.h).
// Plain data.
#pragma once

namespace moetune {

// Products and sums, two for a multiply-add. The first three count what tensor cores can do with operands of
// that type and fp32 accumulators, the last what is left to the CUDA cores.
struct Flops {
  double bf16 = 0, fp16 = 0, e4m3 = 0, fp32 = 0;
};

// The place of a kernel's inputs when it starts: device memory, or L2 because an earlier kernel has just written or
// read them.
enum class Inputs { cold, warm };

struct Cost {
  double read_bytes = 0;     // each input once
  double written_bytes = 0;  // each output once
  Flops flops;
  Inputs inputs = Inputs::cold;

  double bytes() const { return read_bytes + written_bytes; }
};

}  // namespace moetune
