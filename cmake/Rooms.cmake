# The targets of rooms, of inner rooms (the library around them) and of other libraries, which are named as they are.
function(resolve_rooms out)
  set(resolved "")
  foreach(name IN LISTS ARGN)
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${name} AND NOT TARGET ${name})
      string(REGEX REPLACE "/.*" "" name ${name})
      list(APPEND resolved room_${name})
    else()
      list(APPEND resolved ${name})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES resolved)
  set(${out} ${resolved} PARENT_SCOPE)
endfunction()

# may_include(NAME ...): what the sources in the folder NAME may include besides each other, as the tests hold it: of
# the names those that are folders, that is rooms.
set_property(GLOBAL PROPERTY MOETUNE_ARROWS "")
function(may_include name)
  set(rooms ${name}:)
  foreach(other IN LISTS ARGN)
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${other})
      list(APPEND rooms ${other})
    endif()
  endforeach()
  list(JOIN rooms " " arrows)
  set_property(GLOBAL APPEND_STRING PROPERTY MOETUNE_ARROWS "${arrows}\n")
endfunction()

# SIZE files at a time, which share the instances of templates.
function(build_in_batches target size)
  if(size GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${size})
    # A file's own type within a class of that file is what the warning is about; a batch includes both.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# compile_as(TARGET KIND): in batches, with the options ${options_KIND} and the headers that most files include, which
# are parsed once for all targets of the kind; `fast` has too few batches for that. With batches of 1 and
# CMAKE_DISABLE_PRECOMPILE_HEADERS=ON the compiler finds what a file forgot to include.
function(compile_as target kind)
  target_compile_options(${target} PRIVATE ${options_${kind}})
  if(kind STREQUAL "tests")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)  # programs, and no libraries
    set(size ${MOETUNE_TEST_BATCH})
  else()
    set(size ${MOETUNE_BATCH})
  endif()
  build_in_batches(${target} ${size})
  if(kind STREQUAL "fast" AND size GREATER 1)
    return()
  endif()
  set(headers headers_of_${kind})
  if(NOT TARGET ${headers})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${headers}.cc CONTENT "")  # written once: all is built behind it
    add_library(${headers} OBJECT ${PROJECT_BINARY_DIR}/${headers}.cc)
    target_compile_options(${headers} PRIVATE ${options_${kind}})
    target_precompile_headers(${headers} PRIVATE <algorithm> <chrono> <filesystem> <fstream> <functional> <map> <memory>
      <optional> <set> <span> <sstream> <string> <string_view> <variant> <vector>
      ${PROJECT_SOURCE_DIR}/base/json_instances.h)
    if(kind STREQUAL "tests")
      target_precompile_headers(${headers} PRIVATE <doctest/doctest.h>)
      set_target_properties(${headers} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    endif()
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# inner_room(ROOM/NAME DEPENDS ...), in front of the room around it: a folder whose sources are of that room's library.
function(inner_room name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  may_include(${name} ${ARG_DEPENDS})
  string(REGEX REPLACE "/.*" "" outer ${name})
  set_property(GLOBAL APPEND PROPERTY MOETUNE_NEEDS_OF_${outer} ${ARG_DEPENDS})
endfunction()

# room(NAME [KIND kind] DEPENDS ...): the sources in NAME/ and one folder below as the static library room_NAME, which
# includes and links what it depends on. A dependency that is a room is named without its prefix. KIND is compile_as's.
function(room name)
  cmake_parse_arguments(ARG "" "KIND" "DEPENDS" ${ARGN})
  may_include(${name} ${ARG_DEPENDS})
  get_property(needs GLOBAL PROPERTY MOETUNE_NEEDS_OF_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cc ${PROJECT_SOURCE_DIR}/${name}/*/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(NOT sources)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/empty_${name}.cc CONTENT "")
    set(sources ${PROJECT_BINARY_DIR}/empty_${name}.cc)
  endif()
  add_library(room_${name} STATIC ${sources})
  if(NOT ARG_KIND)
    set(ARG_KIND fast)
  endif()
  compile_as(room_${name} ${ARG_KIND})
  target_include_directories(room_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  resolve_rooms(deps ${ARG_DEPENDS} ${needs})
  list(APPEND deps room_base)  # which holds what the precompiled headers declare
  list(REMOVE_ITEM deps room_${name})
  target_link_libraries(room_${name} PUBLIC ${deps})
endfunction()

# The programs of the tests that are labelled so: what one runs after an edit, a minute at most on two cores.
add_custom_target(quick DEPENDS moetune)
find_program(FAST_LINKER NAMES ld.lld ld.gold)
string(REGEX REPLACE ".*ld\\." "" FAST_LINKER "${FAST_LINKER}")

# room_tests(NAME [LABELS ...] [SOURCES ...] [APART ...] DEPENDS ...): tests/NAME/ and one folder below, *_test.cc, as
# the doctest program test_NAME, one ctest entry. SOURCES are helpers, below tests/. The files STEM_test.cc of the
# stems after APART are a second entry, NAME_apart, which runs beside the first and is labelled `long`.
function(room_tests name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;SOURCES;APART;DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${name}/*_test.cc
    ${PROJECT_SOURCE_DIR}/tests/${name}/*/*_test.cc)
  if(NOT sources)
    return()
  endif()
  list(TRANSFORM ARG_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/tests/)
  add_executable(test_${name} ${PROJECT_SOURCE_DIR}/tests/doctest_main.cc ${sources} ${ARG_SOURCES})
  compile_as(test_${name} tests)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/doctest_main.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON
    SKIP_PRECOMPILE_HEADERS ON)
  resolve_rooms(deps ${ARG_DEPENDS})
  target_link_libraries(test_${name} PRIVATE ${deps} tool_resources test_paths)
  if(FAST_LINKER)
    target_link_options(test_${name} PRIVATE -fuse-ld=${FAST_LINKER})
  endif()
  set(entries ${name})
  if(ARG_APART)
    list(TRANSFORM ARG_APART REPLACE "(.+)" "*/\\1_test.cc")
    list(JOIN ARG_APART "," apart)
    add_test(NAME ${name} COMMAND test_${name} --source-file-exclude=${apart})
    add_test(NAME ${name}_apart COMMAND test_${name} --source-file=${apart})
    list(APPEND entries ${name}_apart)
  else()
    add_test(NAME ${name} COMMAND test_${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1200)
  endif()
  set_tests_properties(${entries} PROPERTIES TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "MOETUNE_BINARY=$<TARGET_FILE:moetune>")
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}")
  if(ARG_APART)
    set_tests_properties(${name}_apart PROPERTIES LABELS long)
  endif()
  if("quick" IN_LIST ARG_LABELS)
    add_dependencies(quick test_${name})
  endif()
endfunction()
