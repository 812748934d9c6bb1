# What a server links: libmoetune_runtime.so and .a, with include/ as their headers. Both show the functions of
# include/moetune.h and nothing else, so that a server may have another SQLite, or another moetune, of its own.
include(GNUInstallDirs)

# packaging/NAME_core.cc defines what the runtime needs of other parts of the archive LIBRARY, so that those stay out of
# it. Only where PROGRAM links with both: an archive of one object would define them twice.
set(cores "")
function(leave_out_parts_of NAME LIBRARY PROGRAM)
  if(NOT LIBRARY MATCHES "\\.a$")
    return()
  endif()
  set(file ${PROJECT_BINARY_DIR}/uses_${NAME}.cc)
  file(WRITE ${file} "${PROGRAM}\n")
  set(core ${PROJECT_SOURCE_DIR}/packaging/${NAME}_core.cc)
  try_compile(HAS_PARTS_OF_${NAME} ${PROJECT_BINARY_DIR}/${NAME}_core SOURCES ${core} ${file}
    LINK_LIBRARIES ${LIBRARY} Threads::Threads ${CMAKE_DL_LIBS} m)
  if(HAS_PARTS_OF_${NAME})
    add_library(${NAME}_core OBJECT ${core})
    set(cores ${cores} $<TARGET_OBJECTS:${NAME}_core> PARENT_SCOPE)
  endif()
endfunction()
leave_out_parts_of(sqlite "${sqlitecpp_sqlite3_LIBRARY}" [[
struct sqlite3;
extern "C" int sqlite3_open(const char*, sqlite3**);
int main() {
  sqlite3* database;
  return sqlite3_open(":memory:", &database);
}]])
leave_out_parts_of(sodium "${sodium_sodium_LIBRARY}" [[
#include <sodium.h>
int main() {
  unsigned char bytes[128] = {};
  crypto_hash_sha512(bytes, bytes, 9);
  crypto_hash_sha256(bytes, bytes, 9);
  randombytes_buf(bytes, 9);
  sodium_memzero(bytes, 9);
  crypto_sign_ed25519_seed_keypair(bytes, bytes + 32, bytes);
  crypto_sign_ed25519_detached(bytes, nullptr, bytes, 9, bytes);
  return sodium_init() + crypto_sign_ed25519_verify_detached(bytes, bytes, 9, bytes);
}]])
leave_out_parts_of(zstd "${zstd_zstd_LIBRARY}" [[
#include <zstd.h>
int main() {
  char bytes[64] = {}, frame[64];
  return static_cast<int>(ZSTD_decompress(bytes, 64, frame, ZSTD_compress(frame, 64, bytes, 9, 1)));
}]])

add_library(moetune_runtime SHARED $<TARGET_OBJECTS:runtime_resources> ${cores})
target_link_libraries(moetune_runtime PRIVATE room_runtime)
target_include_directories(moetune_runtime INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
set(runtime_symbols ${PROJECT_SOURCE_DIR}/packaging/runtime.symbols)
# It is to be small: nothing that it does not use, and pages of constants and of code need not begin anew.
target_link_options(moetune_runtime PRIVATE -Wl,-u,moetune_open -Wl,--version-script=${runtime_symbols} -Wl,-z,defs
  -Wl,--gc-sections $<$<CONFIG:Release>:-Wl,-z,noseparate-code>)
set_target_properties(moetune_runtime PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${runtime_symbols}
  VERSION ${PROJECT_VERSION} SOVERSION 1)  # the major version of moetune.h's ABI
if(NOT MOETUNE_SANITIZE)
  target_link_options(moetune_runtime PRIVATE $<$<CONFIG:Release>:-s>)
endif()
add_library(moetune::runtime ALIAS moetune_runtime)

# The static library holds what it can: packages that this machine has as archives too.
set(bundled "")
set(static_libraries "")
foreach(library IN LISTS sqlitecpp_SQLiteCpp_LIBRARY sqlitecpp_sqlite3_LIBRARY zstd_zstd_LIBRARY sodium_sodium_LIBRARY)
  if(library MATCHES "\\.a$")
    list(APPEND bundled ${library})
  else()
    get_filename_component(name ${library} NAME_WE)
    string(REGEX REPLACE "^lib" "" name ${name})
    list(APPEND static_libraries ${name})
  endif()
endforeach()
list(APPEND static_libraries stdc++ m dl pthread)
set(archives "")
foreach(room runtime soundness dispatch launch kernels search ranges cache keys base)
  list(APPEND archives $<TARGET_FILE:room_${room}>)
endforeach()
set(static_archive ${PROJECT_BINARY_DIR}/libmoetune_runtime.a)
add_custom_command(OUTPUT ${static_archive}
  COMMAND ${PROJECT_SOURCE_DIR}/packaging/static_archive ${static_archive} ${CMAKE_LINKER} ${CMAKE_OBJCOPY} ${CMAKE_AR}
          $<TARGET_OBJECTS:runtime_resources> ${cores} ${archives} ${bundled}
  DEPENDS ${PROJECT_SOURCE_DIR}/packaging/static_archive room_runtime runtime_resources ${cores} ${archives}
  COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(moetune_runtime_static ALL DEPENDS ${static_archive})

# find_package(moetune): moetune::runtime, and moetune::runtime_static for those who link everything in.
include(CMakePackageConfigHelpers)
add_custom_target(installable DEPENDS moetune moetune_runtime moetune_runtime_static)
cmake_path(GET PROJECT_BINARY_DIR FILENAME preset)
# ./scripts/moetune builds the tool alone, which CMake would find out in the middle of installing.
foreach(pair tool=$<TARGET_FILE:moetune> runtime=$<TARGET_FILE:moetune_runtime> development=${static_archive})
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 file)
  install(CODE "
    if(NOT EXISTS \"${file}\")
      message(FATAL_ERROR \"${file} is not built; './scripts/build ${preset} installable' builds what is installed\")
    endif()" COMPONENT ${component})
endforeach()
install(TARGETS moetune RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
# Man pages and completions, which the tool prints.
install(CODE "set(MOETUNE_TOOL \"$<TARGET_FILE:moetune>\")" COMPONENT tool)
install(SCRIPT cmake/install_manual.cmake COMPONENT tool)
install(TARGETS moetune_runtime LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
  NAMELINK_COMPONENT development)
set(development COMPONENT development)
install(FILES ${static_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} ${development})
install(FILES include/moetune.h include/moetune_kernels.h include/moetune.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  ${development})
if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/packs)
  install(DIRECTORY packs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/moetune/packs COMPONENT runtime
    FILES_MATCHING PATTERN *.pack)
endif()
set(MOETUNE_STATIC_LIBRARIES ${static_libraries})
configure_package_config_file(packaging/moetune-config.cmake.in ${PROJECT_BINARY_DIR}/moetune-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/moetune
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/moetune-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/moetune-config.cmake ${PROJECT_BINARY_DIR}/moetune-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/moetune ${development})
list(TRANSFORM static_libraries PREPEND -l OUTPUT_VARIABLE MOETUNE_STATIC_FLAGS)
list(JOIN MOETUNE_STATIC_FLAGS " " MOETUNE_STATIC_FLAGS)
file(RELATIVE_PATH MOETUNE_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(packaging/moetune.pc.in ${PROJECT_BINARY_DIR}/moetune.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/moetune.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${development})
