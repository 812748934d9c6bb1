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

# may_include(NAME ...): what the sources in the folder NAME may include besides each other, as the tests hold it: of the
# names those that are folders, that is rooms.
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

# Most of a compilation is the headers, which the files of a room share. MOETUNE_UNITY=OFF takes each file alone, and so
# finds what one forgot to include.
function(build_in_batches target)
  if(MOETUNE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
    # A file's own type within a class of that file is what the warning is about; a batch includes both.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# inner_room(ROOM/NAME DEPENDS ...), in front of the room around it: a folder whose sources are of that room's library.
function(inner_room name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  may_include(${name} ${ARG_DEPENDS})
  string(REGEX REPLACE "/.*" "" outer ${name})
  set_property(GLOBAL APPEND PROPERTY MOETUNE_NEEDS_OF_${outer} ${ARG_DEPENDS})
endfunction()

# room(NAME DEPENDS ...): the sources in NAME/ and one folder below as the static library room_NAME, which includes and
# links what it depends on. A dependency that is a room is named without its prefix.
function(room name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  may_include(${name} ${ARG_DEPENDS})
  get_property(needs GLOBAL PROPERTY MOETUNE_NEEDS_OF_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cc ${PROJECT_SOURCE_DIR}/${name}/*/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(NOT sources)
    file(WRITE ${PROJECT_BINARY_DIR}/empty_${name}.cc "")
    set(sources ${PROJECT_BINARY_DIR}/empty_${name}.cc)
  endif()
  add_library(room_${name} STATIC ${sources})
  build_in_batches(room_${name})
  target_include_directories(room_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  resolve_rooms(deps ${ARG_DEPENDS} ${needs})
  list(REMOVE_ITEM deps room_${name})
  target_link_libraries(room_${name} PUBLIC ${deps})
endfunction()

# The programs of the tests that are labelled so: what one runs after an edit, a minute at most on two cores.
add_custom_target(quick DEPENDS moetune)

# room_tests(NAME [LABELS ...] [SOURCES ...] [APART ...] DEPENDS ...): tests/NAME/ and one folder below,
# *_test.cc, as the doctest program test_NAME, one ctest entry. SOURCES are helpers, below tests/. The files STEM_test.cc
# of the stems after APART are a second entry, NAME_apart, which runs beside the first and is labelled `long`.
function(room_tests name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;SOURCES;APART;DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${name}/*_test.cc
    ${PROJECT_SOURCE_DIR}/tests/${name}/*/*_test.cc)
  if(NOT sources)
    return()
  endif()
  list(TRANSFORM ARG_SOURCES PREPEND ${PROJECT_SOURCE_DIR}/tests/)
  add_executable(test_${name} ${PROJECT_SOURCE_DIR}/tests/doctest_main.cc ${sources} ${ARG_SOURCES})
  build_in_batches(test_${name})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/doctest_main.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  resolve_rooms(deps ${ARG_DEPENDS})
  target_link_libraries(test_${name} PRIVATE ${deps} tool_resources test_paths)
  # What is checked is the rooms' code: the same checks in a test's many assertions, optimized, would take most of the
  # compiler's time.
  if(MOETUNE_SANITIZE)
    target_compile_options(test_${name} PRIVATE -O0 -fno-sanitize=undefined)
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
