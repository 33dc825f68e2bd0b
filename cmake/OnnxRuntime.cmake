# The target onnxruntime::onnxruntime. ONNXRUNTIME_ROOT (variable or environment) names an installation with
# include/ and lib/; ONNXRUNTIME_INCLUDE_DIR and ONNXRUNTIME_LIBRARY name the two parts one by one.
if(NOT TARGET onnxruntime::onnxruntime)
  find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_cxx_api.h
            HINTS ${ONNXRUNTIME_ROOT} $ENV{ONNXRUNTIME_ROOT} ${ONNXRUNTIME_HINT}
            PATH_SUFFIXES include include/onnxruntime include/onnxruntime/core/session onnxruntime)
  find_library(ONNXRUNTIME_LIBRARY onnxruntime
               HINTS ${ONNXRUNTIME_ROOT} $ENV{ONNXRUNTIME_ROOT} ${ONNXRUNTIME_HINT} PATH_SUFFIXES lib lib64)
  if(ONNXRUNTIME_INCLUDE_DIR AND ONNXRUNTIME_LIBRARY)
    add_library(onnxruntime::onnxruntime SHARED IMPORTED)
    set_target_properties(onnxruntime::onnxruntime PROPERTIES
      IMPORTED_LOCATION ${ONNXRUNTIME_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES ${ONNXRUNTIME_INCLUDE_DIR}
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${ONNXRUNTIME_INCLUDE_DIR})
  endif()
endif()
