// Decode steps from C++, as a server takes them: contexts grow, the choice follows, and nothing is compiled.
//
//   moetune search decode_attention --problem batch=4,q_heads=8,kv_heads=1,context=512,page=16
//   c++ -std=c++20 decode_attention.cc $(pkg-config --cflags --libs moetune) -lcuda -o decode_attention
//
// Every key is 0 and every value 1, so that every output is 1. An argument names a cache or a pack.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <moetune.hpp>
#include <numeric>

namespace {

constexpr std::int64_t kBatch = 4, kHeads = 8, kDim = 128, kPage = 16, kPages = 32, kPool = kBatch * kPages;
constexpr std::uint16_t kOne = 0x3F80;  // in bf16

void cuda(CUresult result) {
  if (result != CUDA_SUCCESS) throw std::runtime_error("CUDA error " + std::to_string(result));
}

// Device memory with a copy of what the host has.
template <typename Element>
struct OnDevice {
  explicit OnDevice(const std::vector<Element>& host) {
    cuda(cuMemAlloc(&address, host.size() * sizeof(Element)));
    cuda(cuMemcpyHtoD(address, host.data(), host.size() * sizeof(Element)));
  }
  OnDevice(const OnDevice&) = delete;
  ~OnDevice() { cuMemFree(address); }
  void* get() const { return reinterpret_cast<void*>(address); }
  CUdeviceptr address = 0;
};

void run(const moetune::Options& options) {
  const moetune::Runtime runtime(options);
  const moetune::Family decode = runtime.family("decode_attention", "group=8,head_dim=128,page=16");
  const std::size_t bytes = decode.family_workspace({kBatch, 1, kPages * kPage});
  const OnDevice<std::uint8_t> memory{std::vector<std::uint8_t>(bytes)};
  const moetune::Workspace workspace{memory.get(), bytes};
  runtime.init_workspace(workspace, nullptr);

  std::vector<std::int32_t> table(kPool);
  std::iota(table.begin(), table.end(), 0);
  const OnDevice<std::uint16_t> zeros(std::vector<std::uint16_t>(kPool * kPage * kDim)),
      ones(std::vector<std::uint16_t>(kPool * kPage * kDim, kOne));
  const OnDevice<std::int32_t> page_table(table);
  constexpr std::int64_t row = kHeads * kDim, page = kPage * kDim;
  for (const std::int32_t context : {1, 100, 101, 102, 500}) {
    const OnDevice<std::int32_t> lengths(std::vector<std::int32_t>(kBatch, context));
    std::vector<std::uint16_t> out(kBatch * kHeads * kDim);
    const OnDevice<std::uint16_t> o(out);
    const moetune_arguments call{
        {zeros.get(), zeros.get(), ones.get(), page_table.get(), lengths.get(), o.get()},
        {row, row, kDim, row, row, kDim, page, page, kDim, page, page, kDim, 0, kPool, kPages * kPage, kPages},
        {0.0883883}};
    decode.launch(decode.pick({kBatch, 1, context}), call, workspace, nullptr);
    cuda(cuStreamSynchronize(nullptr));
    cuda(cuMemcpyDtoH(out.data(), reinterpret_cast<CUdeviceptr>(o.get()), out.size() * sizeof(out[0])));
    if (std::ranges::count(out, kOne) != std::ssize(out))
      throw std::runtime_error("an output is wrong at context " + std::to_string(context));
  }
  std::puts("all outputs are right");
}

}  // namespace

int main(int argc, char** argv) try {
  CUcontext context;
  cuda(cuInit(0));
  cuda(cuDevicePrimaryCtxRetain(&context, 0));
  cuda(cuCtxSetCurrent(context));
  run({.paths = {argv + 1, argv + argc}});
} catch (const std::exception& error) {
  return std::fprintf(stderr, "%s\n", error.what()), 1;
}
