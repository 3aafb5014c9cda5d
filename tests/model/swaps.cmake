# Faults that move statements. near_model_swap replaces a piece of a production file, in a copy, by
# code that does one thing or the other:
#
#   if (near::mutated("the name")) { wrong order } else { what was there }
#
# The file is a header of the reclamation library, or one of the allocator's that the model lists.
# near_model_swaps makes the program of a model that includes these copies and tries each fault;
# further arguments are copies to compile. The model itself explores the files unchanged.
function(near_model_swap model header name from to)
  set(folder ${PROJECT_SOURCE_DIR}/include)
  set(file nearmalloc/reclaim/${header})
  if(EXISTS ${PROJECT_SOURCE_DIR}/malloc/${header})
    set(folder ${PROJECT_SOURCE_DIR}/malloc)
    set(file ${header})
  endif()
  set(copy ${CMAKE_CURRENT_BINARY_DIR}/${model}_swaps/${file})
  set(original ${folder}/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${original})
  get_property(copied GLOBAL PROPERTY near_${model}_copied)
  if(header IN_LIST copied)
    file(READ ${copy} text)
  else()
    file(READ ${original} text)
    set_property(GLOBAL APPEND PROPERTY near_${model}_copied ${header})
  endif()
  string(FIND "${text}" "${from}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${header} no longer has the lines that '${name}' moves")
  endif()
  string(REPLACE "${from}" "if (near::mutated(\"${name}\")) {\n${to}} else {\n${from}}\n"
    text "${text}")
  file(WRITE ${copy} "${text}")
  set_property(GLOBAL APPEND_STRING PROPERTY near_${model}_names "    {\"${name}\"},\n")
endfunction()

function(near_model_swaps model label)
  get_property(names GLOBAL PROPERTY near_${model}_names)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${model}_swaps/swaps.h @ONLY CONTENT
"namespace near::model {
inline const std::vector<Mutation> kSwaps = {
@names@};
}
")
  set(sources ${ARGN})
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_BINARY_DIR}/${model}_swaps/)
  add_executable(model_${model}_swaps ${model}_model.cc swaps_main.cc ${sources})
  target_include_directories(model_${model}_swaps BEFORE PRIVATE
    ${CMAKE_CURRENT_BINARY_DIR}/${model}_swaps)
  target_link_libraries(model_${model}_swaps PRIVATE near_model)
  near_test_core(model.${model}.swaps LABEL ${label} COMMAND model_${model}_swaps)
endfunction()
