# cmake -DSOURCE=DIR -DOUT=FILE -P Commit.cmake: what SOURCE was built of, as FILE, which is written only if it changes.
cmake_minimum_required(VERSION 3.25)
find_package(Git QUIET)
set(COMMIT "")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -c safe.directory=${SOURCE} -C ${SOURCE} describe --always --abbrev=12
    --exclude=* --dirty=+ OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "#define MOETUNE_COMMIT \"${COMMIT}\"\n")
