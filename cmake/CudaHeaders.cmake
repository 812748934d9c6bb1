# Where cuda.h and nvrtc.h are, in CUDA_INCLUDE and NVRTC_INCLUDE: for the build, and for the test of what is installed,
# which looks once more, because a toolkit may have come or gone since. Headers only: libcuda, libnvrtc and NVML are
# opened at run time. scripts/setup puts NVIDIA's Python packages into build/cuda where the machine has no toolkit.
file(GLOB cuda_from_packages ${CMAKE_CURRENT_LIST_DIR}/../build/cuda/nvidia/*/include)
foreach(pair CUDA_INCLUDE=cuda.h NVRTC_INCLUDE=nvrtc.h)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 folder)
  list(GET pair 1 header)
  find_path(${folder} ${header} HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS ${cuda_from_packages} /usr/local/cuda
    PATH_SUFFIXES include REQUIRED)
endforeach()
