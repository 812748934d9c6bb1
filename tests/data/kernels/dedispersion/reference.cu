extern "C" __global__ void dedisperse_plainly(float* out, const unsigned char* in, const short* delays, int samples,
                                              int measures, int channels, int longest) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= samples) return;
  int sum = 0;
  for (int c = 0; c < channels; ++c) sum += in[c * (samples + longest) + x + delays[c] * y / measures];
  out[y * samples + x] = sum;
}
