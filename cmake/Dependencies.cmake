# Every outside package, as one interface target each, so that rooms name what they use.
find_package(Threads REQUIRED)
find_package(nlohmann_json 3 REQUIRED)
if(NOT TARGET nlohmann_json)
  add_library(nlohmann_json ALIAS nlohmann_json::nlohmann_json)
endif()

function(library_target target header)
  find_path(${target}_INCLUDE ${header} REQUIRED)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_INCLUDE})
  foreach(library IN LISTS ARGN)
    find_library(${target}_${library}_LIBRARY ${library} REQUIRED)
    target_link_libraries(${target} INTERFACE ${${target}_${library}_LIBRARY})
  endforeach()
endfunction()

library_target(xxhash xxhash.h)
library_target(zstd zstd.h zstd)
library_target(zlib zlib.h z)
library_target(sodium sodium.h sodium)
library_target(sqlitecpp SQLiteCpp/SQLiteCpp.h SQLiteCpp sqlite3)
target_link_libraries(sqlitecpp INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
library_target(boost_program_options boost/program_options.hpp boost_program_options)
library_target(openssl openssl/ssl.h ssl crypto)
target_link_libraries(openssl INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
find_path(DOCTEST_INCLUDE doctest/doctest.h REQUIRED)

# Headers only: libcuda, libnvrtc and NVML are opened at run time. scripts/setup puts NVIDIA's Python packages below
# the build folder where the machine has no toolkit.
file(GLOB cuda_from_packages ${PROJECT_SOURCE_DIR}/build/cuda/nvidia/*/include)
find_path(CUDA_INCLUDE cuda.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS ${cuda_from_packages} /usr/local/cuda
  PATH_SUFFIXES include REQUIRED)
find_path(NVRTC_INCLUDE nvrtc.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS ${cuda_from_packages} /usr/local/cuda
  PATH_SUFFIXES include REQUIRED)
add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${CUDA_INCLUDE} ${NVRTC_INCLUDE})
target_link_libraries(cuda_headers INTERFACE ${CMAKE_DL_LIBS})

# Charts of the report's page, as Debian's libjs-chart.js brings them (Chart.js 3, MIT licence).
find_file(CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js /usr/share/nodejs/chart.js/dist REQUIRED)
