# embed_resources(TARGET FOLDER... [FILES NAME PATH ...]): every file below the folders, in the binary, as the table
# that base/resources.cc reads; after FILES, files from elsewhere, each with its name in the table. The assembler's
# .incbin takes the bytes as they are.
function(embed_resources target)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(paths "")
  foreach(folder IN LISTS ARG_UNPARSED_ARGUMENTS)
    file(GLOB_RECURSE found RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*)
    list(APPEND paths ${found})
  endforeach()
  list(SORT paths)
  list(TRANSFORM paths PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  while(ARG_FILES)
    list(POP_FRONT ARG_FILES name source)
    list(APPEND paths ${name})
    list(APPEND sources ${source})
  endwhile()

  set(data "")
  set(names "")
  set(table "")
  set(index 0)
  foreach(path source IN ZIP_LISTS paths sources)
    string(APPEND data ".Ldata${index}: .incbin \"${source}\"\n.Lend${index}:\n")
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
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS "${sources}")
  add_library(${target} OBJECT ${assembly})
endfunction()
