# Man pages and completion, as the tool writes them of its own options; installed where a system looks for them.
set(manual ${PROJECT_BINARY_DIR}/manual)
add_custom_command(OUTPUT ${manual}/moetune.bash DEPENDS moetune
  COMMAND ${CMAKE_COMMAND} -E make_directory ${manual}
  COMMAND moetune man --folder ${manual}/man1 --quiet > ${manual}/pages.log
  COMMAND moetune completion zsh > ${manual}/_moetune
  COMMAND moetune completion fish > ${manual}/moetune.fish
  COMMAND moetune completion bash > ${manual}/moetune.bash)
add_custom_target(manual ALL DEPENDS ${manual}/moetune.bash)
install(DIRECTORY ${manual}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tool OPTIONAL)
install(FILES ${manual}/moetune.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME moetune
  COMPONENT tool OPTIONAL)
install(FILES ${manual}/_moetune DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT tool OPTIONAL)
install(FILES ${manual}/moetune.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tool
  OPTIONAL)
