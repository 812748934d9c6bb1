/* One step of decode attention from C: 4 sequences, 8 query heads and 1 KV head of 128, pages of 16.
 *
 *   moetune search decode_attention --problem batch=4,q_heads=8,kv_heads=1,context=512,page=16
 *   cc decode_attention.c $(pkg-config --cflags --libs moetune) -lcuda -o decode_attention && ./decode_attention
 *
 * Every key is 0 and every value 1, so that every output is 1. An argument names a cache or a pack. */
#include <cuda.h>
#include <moetune.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 4, HEADS = 8, DIM = 128, PAGE = 16, CONTEXT = 500, PAGES = 32, POOL = BATCH * PAGES };
enum { ONE = 0x3F80 }; /* in bf16 */

#define CHECK(call, done, why) \
  if ((call) != (done)) fprintf(stderr, "%s: %s\n", #call, why), exit(1)
#define CUDA(call) CHECK(call, CUDA_SUCCESS, "the driver refused")
#define MOETUNE(call) CHECK(call, MOETUNE_OK, moetune_last_error())

static void* to_device(const void* host, size_t bytes) {
  CUdeviceptr address = 0;
  CUDA(cuMemAlloc(&address, bytes));
  if (host != NULL) CUDA(cuMemcpyHtoD(address, host, bytes));
  return (void*)(uintptr_t)address;
}

int main(int argc, char** argv) {
  CUcontext context;
  CUDA(cuInit(0));
  CUDA(cuDevicePrimaryCtxRetain(&context, 0));
  CUDA(cuCtxSetCurrent(context));

  /* Once a server: the results; once a model: its family. */
  const char* paths[] = {argc > 1 ? argv[1] : ""};
  const moetune_open_options options = {sizeof options, paths, argc > 1, 0, 0};
  moetune_runtime* runtime;
  moetune_family* family;
  MOETUNE(moetune_open(&options, &runtime));
  MOETUNE(moetune_family_open(runtime, "decode_attention", "group=8,head_dim=128,page=16", &family));
  const int64_t largest[] = {BATCH, 1, PAGES * PAGE};
  size_t bytes;
  MOETUNE(moetune_family_workspace(family, largest, 3, &bytes));
  void* const workspace = to_device(NULL, bytes);
  MOETUNE(moetune_workspace_init(runtime, workspace, bytes, NULL));

  static uint16_t q[BATCH * HEADS * DIM], o[BATCH * HEADS * DIM], k[POOL * PAGE * DIM], v[POOL * PAGE * DIM];
  static int32_t page_table[BATCH * PAGES], lengths[BATCH];
  for (int i = 0; i < POOL * PAGE * DIM; ++i) v[i] = ONE;
  for (int i = 0; i < BATCH * PAGES; ++i) page_table[i] = i;
  for (int i = 0; i < BATCH; ++i) lengths[i] = CONTEXT - i;

  /* Tensors in the order of MOETUNE_DECODE_Q, ..., strides in that of MOETUNE_DECODE_Q_SEQUENCE_STRIDE, ... */
  const int64_t row = HEADS * DIM, page = PAGE * DIM;
  const moetune_arguments call = {
      .tensors = {to_device(q, sizeof q), to_device(k, sizeof k), to_device(v, sizeof v),
                  to_device(page_table, sizeof page_table), to_device(lengths, sizeof lengths),
                  to_device(o, sizeof o)},
      .integers = {row, row, DIM, row, row, DIM, page, page, DIM, page, page, DIM, 0, POOL, PAGES * PAGE,
                   PAGES},
      .reals = {0.0883883}}; /* 1 / sqrt(DIM) */

  /* Every step: the choice for what the batch is now, and a launch a layer. */
  const int64_t now[] = {BATCH, 1, CONTEXT};
  moetune_choice choice;
  MOETUNE(moetune_pick(family, now, 3, 0, &choice));
  MOETUNE(moetune_launch(family, &choice, &call, workspace, bytes, NULL));

  CUDA(cuStreamSynchronize(NULL));
  CUDA(cuMemcpyDtoH(o, (CUdeviceptr)(uintptr_t)call.tensors[MOETUNE_DECODE_O], sizeof o));
  int wrong = 0;
  for (int i = 0; i < BATCH * HEADS * DIM; ++i) wrong += o[i] != ONE;
  printf("%d of %d outputs are wrong\n", wrong, BATCH * HEADS * DIM);
  moetune_close(runtime);
  for (int i = 0; i <= MOETUNE_DECODE_O; ++i) CUDA(cuMemFree((CUdeviceptr)(uintptr_t)call.tensors[i]));
  CUDA(cuMemFree((CUdeviceptr)(uintptr_t)workspace));
  return wrong != 0;
}
