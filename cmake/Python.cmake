# libmoetune_tvm_ffi.so: moetune.h for Python, through Apache TVM-FFI's stable ABI; one library for every Python.
# scripts/setup brings the pip package apache-tvm-ffi into build/python; without it there is no Python part.
find_path(TVM_FFI_INCLUDE tvm/ffi/c_api.h PATHS ${PROJECT_SOURCE_DIR}/build/python/tvm_ffi/include NO_DEFAULT_PATH)
find_file(TVM_FFI_LIBRARY libtvm_ffi.so PATHS ${PROJECT_SOURCE_DIR}/build/python/tvm_ffi/lib NO_DEFAULT_PATH)
if(NOT TVM_FFI_INCLUDE OR NOT TVM_FFI_LIBRARY OR MOETUNE_SANITIZE)  # a Python without a sanitizer loads none
  return()
endif()
file(GLOB python_sources CONFIGURE_DEPENDS python/src/*.cc)
add_library(moetune_tvm_ffi SHARED ${python_sources})
build_in_batches(moetune_tvm_ffi ${MOETUNE_BATCH})
target_include_directories(moetune_tvm_ffi SYSTEM PRIVATE ${TVM_FFI_INCLUDE})
target_link_libraries(moetune_tvm_ffi PRIVATE moetune_runtime ${TVM_FFI_LIBRARY})
# Beside each other in the wheel; libtvm_ffi.so is loaded by `import tvm_ffi`.
set_target_properties(moetune_tvm_ffi PROPERTIES INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
target_link_options(moetune_tvm_ffi PRIVATE -Wl,-z,defs -Wl,--exclude-libs,ALL $<$<CONFIG:Release>:-s>)
