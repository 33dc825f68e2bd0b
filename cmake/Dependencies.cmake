# Everything the build needs. scripts/setup puts the wheels and headers that Debian does not package into
# .deps/; to use other installations set Torch_DIR, ONNXRUNTIME_INCLUDE_DIR and ONNXRUNTIME_LIBRARY.
set(EXPORTERS_DEPS_DIR ${PROJECT_SOURCE_DIR}/.deps CACHE PATH "What scripts/setup installed")

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)

find_package(Torch 2.13 REQUIRED HINTS ${EXPORTERS_DEPS_DIR}/sdk/torch/share/cmake/Torch)
# libtorch's headers are not ours: their warnings stay out of our -Werror.
set_target_properties(torch PROPERTIES SYSTEM ON)
include(TorchHeaders)
exporters_hide_bundled_headers(${PROJECT_BINARY_DIR}/torch_include)

if(EXPORTERS_WITH_ONNX)
  find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_writer.hpp REQUIRED)
  add_library(protozero::protozero INTERFACE IMPORTED)
  target_include_directories(protozero::protozero INTERFACE ${PROTOZERO_INCLUDE_DIR})

  find_path(ONNXRUNTIME_INCLUDE_DIR onnxruntime_cxx_api.h REQUIRED
            HINTS ${EXPORTERS_DEPS_DIR}/onnxruntime/include PATH_SUFFIXES onnxruntime onnxruntime/core/session)
  find_library(ONNXRUNTIME_LIBRARY onnxruntime REQUIRED HINTS ${EXPORTERS_DEPS_DIR}/onnxruntime/lib)
  add_library(onnxruntime::onnxruntime SHARED IMPORTED)
  set_target_properties(onnxruntime::onnxruntime PROPERTIES
    IMPORTED_LOCATION ${ONNXRUNTIME_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${ONNXRUNTIME_INCLUDE_DIR}
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES ${ONNXRUNTIME_INCLUDE_DIR})
endif()
