# Installs into an empty folder, builds examples/ against it in three ways, runs them with the scripted driver, and
# holds the library to what it promises: its size, its symbols, and what it needs.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

include(${SOURCE}/../../cmake/CudaHeaders.cmake)
file(REMOVE_RECURSE ${FOLDER})
set(prefix ${FOLDER}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
file(GLOB library ${prefix}/lib*/libmoetune_runtime.so.1 ${prefix}/lib*/*/libmoetune_runtime.so.1)
file(GLOB archive ${prefix}/lib*/libmoetune_runtime.a ${prefix}/lib*/*/libmoetune_runtime.a)
cmake_path(GET library PARENT_PATH folder)
set(ENV{LD_LIBRARY_PATH} ${DRIVER}:${folder})

# find_package, shared and static.
run(${CMAKE_COMMAND} -S ${SOURCE}/project -B ${FOLDER}/project -G ${GENERATOR} -D CMAKE_MAKE_PROGRAM=${MAKE_PROGRAM}
    -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${prefix} -D EXAMPLES=${EXAMPLES} -D CUDA=${CUDA_INCLUDE}
    -D DRIVER=${DRIVER})
run(${CMAKE_COMMAND} --build ${FOLDER}/project)
foreach(program shared static)
  run(${FOLDER}/project/${program} ${CACHE})
endforeach()

# pkg-config, as the examples' own comments say.
find_program(PKG_CONFIG pkg-config)
if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} ${folder}/pkgconfig)
  run(sh -c "${COMPILER} -std=c++20 ${EXAMPLES}/decode_attention.cc $(pkg-config --cflags --libs moetune) -I${CUDA_INCLUDE} \
      ${DRIVER}/libcuda.so.1 -o ${FOLDER}/with_pkg_config")
  run(${FOLDER}/with_pkg_config ${CACHE})
else()
  message(STATUS "SKIPPED: pkg-config is not here; scripts/test brings it by apt")
endif()

# Nothing but the functions of moetune.h is to be seen.
file(STRINGS ${prefix}/include/moetune.h declarations REGEX "^MOETUNE_API")
list(LENGTH declarations declared)
foreach(file ${library} ${archive})
  if(file MATCHES "\\.a$")
    run(nm -g --defined-only ${file})
  else()
    run(nm -D --defined-only ${file})
  endif()
  string(REGEX MATCHALL "[^\n]* [A-Za-z] [^\n]+" symbols "${output}")
  set(functions 0)
  foreach(symbol IN LISTS symbols)
    if(NOT symbol MATCHES " T moetune_[a-z_]+$")
      message(FATAL_ERROR "${file} shows more than moetune.h's functions: ${symbol}")
    endif()
    math(EXPR functions "${functions} + 1")
  endforeach()
  if(NOT functions EQUAL declared)
    message(FATAL_ERROR "${file} shows ${functions} functions; moetune.h declares ${declared}")
  endif()
endforeach()

# It opens the driver at run time, and has no compiler and no options parser.
run(objdump -p ${library})
if(output MATCHES "NEEDED +lib(cuda|nvrtc|boost|nvidia)")
  message(FATAL_ERROR "${library} needs what it should open at run time, or not at all:\n${output}")
endif()

# It is to be small, whatever is linked in.
run(objcopy --strip-all ${library} ${FOLDER}/stripped.so)
file(SIZE ${FOLDER}/stripped.so size)
if(size GREATER 3000000)
  message(FATAL_ERROR "${library} has ${size} bytes without symbols; at most 3,000,000 are wanted")
endif()
