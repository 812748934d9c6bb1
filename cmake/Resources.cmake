# embed_resources(TARGET FOLDER...): every file below the folders, in the binary, as the table that base/resources.cc
# reads. The assembler's .incbin takes the bytes as they are.
function(embed_resources target)
  set(paths "")
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE found RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*)
    list(APPEND paths ${found})
  endforeach()
  list(SORT paths)

  set(data "")
  set(names "")
  set(table "")
  set(index 0)
  set(files "")
  foreach(path IN LISTS paths)
    list(APPEND files ${PROJECT_SOURCE_DIR}/${path})
    string(APPEND data ".Ldata${index}: .incbin \"${PROJECT_SOURCE_DIR}/${path}\"\n.Lend${index}:\n")
    string(APPEND names ".Lname${index}: .asciz \"${path}\"\n")
    string(APPEND table ".quad .Lname${index}\n.quad .Ldata${index}\n.quad .Lend${index} - .Ldata${index}\n")
    math(EXPR index "${index} + 1")
  endforeach()

  set(assembly ${PROJECT_BINARY_DIR}/${target}.S)
  file(CONFIGURE OUTPUT ${assembly} @ONLY CONTENT
".section .rodata
${data}${names}.section .data.rel.ro, \"aw\"
.balign 8
.globl moetune_resource_table
.hidden moetune_resource_table
moetune_resource_table:
${table}.globl moetune_resource_count
.hidden moetune_resource_count
.balign 8
moetune_resource_count: .quad ${index}
.section .note.GNU-stack,\"\",%progbits
")
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS "${files}")
  add_library(${target} OBJECT ${assembly})
endfunction()
