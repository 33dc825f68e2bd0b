# `cmake --install` makes a package that find_package(exporters) finds: headers, libraries, hfx.
include(CMakePackageConfigHelpers)

# Installed files find each other relative to themselves. libtorch and ONNX Runtime: those of .deps/ are
# copied beside ours, so that the package does not depend on this checkout; the user's own stay where they are.
cmake_path(IS_PREFIX EXPORTERS_DEPS_DIR "${TORCH_INSTALL_PREFIX}" NORMALIZE torch_is_from_setup)
option(EXPORTERS_INSTALL_RUNTIME "Install copies of libtorch and ONNX Runtime with the package" ${torch_is_from_setup})
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
