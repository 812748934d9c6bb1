// Moves pages of a KV cache: out of a pool, into it, or from pool to pool, as bytes or to and from e4m3.
// docs/kv_transfer.md has the tensors.
//
// The caller decides where the memory is: addresses may be of this GPU, of another one, or of the host's pinned memory.
//
// Macros: those of shape.cuh; BULK (1: bulk.cuh, 0: vectors.cuh) and its macros; THREADS.
#include "templates/common/dependent_launch.cuh"
#if BULK
#include "templates/kv_transfer/bulk.cuh"
#else
#include "templates/kv_transfer/vectors.cuh"
#endif

extern "C" __global__ void __launch_bounds__(THREADS) kv_transfer(TRANSFER_PARAMETERS(Target)) {
  allow_dependent_launch();
  wait_for_predecessor();
  TRANSFER_ENDS(Target);
#if BULK
  move_by_bulk_copies(from, to, pages);
#else
  move_by_vectors(from, to, scales, pages);
#endif
}
