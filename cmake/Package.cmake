# `cmake --install` makes a package that find_package(exporters) finds: headers, libraries, hfx.
include(CMakePackageConfigHelpers)

# Installed files find each other relative to themselves. libtorch and the runtimes: those of .deps/ are
# copied beside ours, so that the package does not depend on this checkout; the user's own stay where they are.
cmake_path(IS_PREFIX EXPORTERS_DEPS_DIR "${TORCH_INSTALL_PREFIX}" NORMALIZE torch_is_from_setup)
option(EXPORTERS_INSTALL_RUNTIME "Install copies of libtorch and of the runtimes with the package" ${torch_is_from_setup})
set(EXPORTERS_INSTALL_RPATH "" CACHE STRING "Further folders that installed files look for shared libraries in")

set(runtime_folder ${CMAKE_INSTALL_LIBDIR}/exporters)
set(library_rpath "$ORIGIN")
if(EXPORTERS_INSTALL_RUNTIME)
  list(APPEND library_rpath "$ORIGIN/exporters")
else()
  list(APPEND library_rpath ${TORCH_INSTALL_PREFIX}/lib)
  if(TARGET onnxruntime::onnxruntime)
    cmake_path(GET ONNXRUNTIME_LIBRARY PARENT_PATH onnxruntime_folder)
    list(APPEND library_rpath ${onnxruntime_folder})
  endif()
endif()
list(APPEND library_rpath ${EXPORTERS_INSTALL_RPATH})
string(REPLACE "$ORIGIN" "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" program_rpath "${library_rpath}")

# exporters_install(COMPONENT TARGET NAME): TARGET is exporters::NAME for users of the package.
function(exporters_install component target name)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} INSTALL_RPATH "${library_rpath}")
  install(TARGETS ${target} EXPORT exporters_${component}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(EXPORT exporters_${component} NAMESPACE exporters:: FILE exporters-${component}-targets.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/exporters)
endfunction()

exporters_install(core exporters exporters)
set(headers_excluded)
if(TARGET exporters_onnx)
  exporters_install(onnx exporters_onnx onnx)
else()
  list(APPEND headers_excluded PATTERN onnx EXCLUDE)
endif()
if(TARGET exporters_executorch)
  exporters_install(executorch exporters_executorch executorch)
  # Opened by the one above, from the folder that it lies in.
  set(executorch_rpath "$ORIGIN/exporters")
  if(NOT EXPORTERS_INSTALL_RUNTIME)
    set(executorch_rpath ${EXECUTORCH_FOLDER}/lib)
  endif()
  set_target_properties(exporters_executorch_runtime PROPERTIES INSTALL_RPATH "${executorch_rpath}")
  install(TARGETS exporters_executorch_runtime LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  list(APPEND headers_excluded PATTERN runtime EXCLUDE)
else()
  list(APPEND headers_excluded PATTERN executorch EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/exporters DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN *.h ${headers_excluded})

if(TARGET hfx)
  set_target_properties(hfx PROPERTIES INSTALL_RPATH "${program_rpath}")
  install(TARGETS hfx RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

if(EXPORTERS_INSTALL_RUNTIME)
  file(GLOB torch_runtime ${TORCH_INSTALL_PREFIX}/lib/libtorch.so ${TORCH_INSTALL_PREFIX}/lib/libtorch_cpu.so
       ${TORCH_INSTALL_PREFIX}/lib/libc10.so ${TORCH_INSTALL_PREFIX}/lib/libgomp*)
  install(FILES ${torch_runtime} DESTINATION ${runtime_folder})
  if(TARGET onnxruntime::onnxruntime)
    # Under the name that programs ask for at run time.
    file(REAL_PATH ${ONNXRUNTIME_LIBRARY} onnxruntime_file)
    install(FILES ${onnxruntime_file} DESTINATION ${runtime_folder} RENAME libonnxruntime.so.1)
  endif()
  if(TARGET exporters_executorch)
    foreach(library executorch executorch_kernels_optimized executorch_backend_xnnpack executorch_threadpool)
      install(FILES ${EXECUTORCH_LIBRARY_${library}} DESTINATION ${runtime_folder})
    endforeach()
  endif()
endif()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/exportersConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/exportersConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/exporters)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/exportersConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/exportersConfig.cmake
              ${PROJECT_BINARY_DIR}/package/exportersConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/TorchHeaders.cmake ${CMAKE_CURRENT_LIST_DIR}/OnnxRuntime.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/exporters)
