# The target executorch::executorch (the C++ runtime with its kernels and the XNNPACK delegate) and the schemas of its
# file formats. EXECUTORCH_ROOT (variable or environment) names an installation laid out as the wheel `executorch` is:
# include/, lib/, schema/program.fbs, backends/xnnpack/serialization/schema.fbs.
if(NOT TARGET executorch::executorch)
  set(executorch_hints ${EXECUTORCH_ROOT} $ENV{EXECUTORCH_ROOT} ${EXECUTORCH_HINT})
  find_path(EXECUTORCH_FOLDER include/executorch/extension/module/module.h HINTS ${executorch_hints} NO_CACHE)
  find_path(EXECUTORCH_SCHEMA_FOLDER schema/program.fbs HINTS ${executorch_hints} NO_CACHE)
  set(executorch_libraries)
  foreach(library executorch executorch_kernels_optimized executorch_backend_xnnpack executorch_threadpool)
    find_library(EXECUTORCH_LIBRARY_${library} ${library} HINTS ${EXECUTORCH_FOLDER}/lib NO_DEFAULT_PATH)
    list(APPEND executorch_libraries ${EXECUTORCH_LIBRARY_${library}})
  endforeach()
  if(EXECUTORCH_FOLDER AND EXECUTORCH_SCHEMA_FOLDER AND NOT "${executorch_libraries}" MATCHES NOTFOUND)
    if(EXPORTERS_SANITIZE)
      # Nothing else keeps the runtime from libtorch's XNNPACK there (runner.cpp).
      find_program(EXPORTERS_PYTHON3 python3 REQUIRED)
      execute_process(COMMAND ${EXPORTERS_PYTHON3} ${CMAKE_CURRENT_LIST_DIR}/bind_symbols.py
                              ${PROJECT_BINARY_DIR}/executorch_libraries ${executorch_libraries}
                      COMMAND_ERROR_IS_FATAL ANY)
      list(TRANSFORM executorch_libraries REPLACE "^.*/" "${PROJECT_BINARY_DIR}/executorch_libraries/")
    endif()
    add_library(executorch::executorch INTERFACE IMPORTED)
    set_target_properties(executorch::executorch PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES
        "${EXECUTORCH_FOLDER}/include;${EXECUTORCH_FOLDER}/include/executorch/runtime/core/portable_type/c10"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
        "${EXECUTORCH_FOLDER}/include;${EXECUTORCH_FOLDER}/include/executorch/runtime/core/portable_type/c10"
      INTERFACE_COMPILE_DEFINITIONS
        "C10_USING_CUSTOM_GENERATED_MACROS;ET_EVENT_TRACER_ENABLED;ET_USE_THREADPOOL"
      # Kernels and delegates register themselves and export nothing that anybody asks for.
      INTERFACE_LINK_LIBRARIES "-Wl,--no-as-needed;${executorch_libraries}")
  endif()
endif()

# exporters_flatbuffers(FOLDER schema…): C++ headers of the schemas, made by flatc into FOLDER; the target that makes
# them is named in exporters_flatbuffers_headers as a list of files.
function(exporters_flatbuffers folder)
  set(headers)
  foreach(schema IN LISTS ARGN)
    get_filename_component(name ${schema} NAME_WE)
    set(header ${folder}/${name}_generated.h)
    add_custom_command(OUTPUT ${header} DEPENDS ${schema}
                       COMMAND ${FLATC} --cpp --scoped-enums -o ${folder} ${schema} VERBATIM)
    list(APPEND headers ${header})
  endforeach()
  set(exporters_flatbuffers_headers ${headers} PARENT_SCOPE)
endfunction()
