# Of `cmake --install`: the man pages and completions that MOETUNE_TOOL prints, where shells and man look for them.
set(share $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share)

function(try_tool result)
  execute_process(COMMAND ${MOETUNE_TOOL} ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE error)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " words)
    message(STATUS "Not installed: what `moetune ${words}` makes: ${error}")
    set(output "")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

set(manual ${share}/man/man1)
try_tool(written man --folder ${manual})
file(GLOB pages ${manual}/moetune*.1)
foreach(page IN LISTS pages)  # Debian wants them compressed, and man reads both
  execute_process(COMMAND gzip -9nf ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
foreach(pair bash=bash-completion/completions/moetune zsh=zsh/vendor-completions/_moetune
    fish=fish/vendor_completions.d/moetune.fish)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 shell)
  list(GET pair 1 file)
  try_tool(script completion ${shell})
  if(script)
    file(WRITE ${share}/${file} "${script}")
  endif()
endforeach()
