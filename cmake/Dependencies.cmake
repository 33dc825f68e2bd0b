# Everything the build needs. scripts/setup puts the wheels and headers that Debian does not package into
# .deps/. For other installations:
#   Torch_DIR         the folder of TorchConfig.cmake in a libtorch 2.13 with the C++11 ABI
#   ONNXRUNTIME_ROOT  an ONNX Runtime 1.21 or newer with include/ and lib/; or its two parts one by one,
#                     ONNXRUNTIME_INCLUDE_DIR and ONNXRUNTIME_LIBRARY
#   EXECUTORCH_ROOT   an ExecuTorch 1.5 laid out as its wheel is (include/, lib/, schema/)
# All may be given as CMake variables or in the environment.
set(EXPORTERS_DEPS_DIR ${PROJECT_SOURCE_DIR}/.deps CACHE PATH "What scripts/setup installed")

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)

find_package(Torch 2.13 REQUIRED HINTS ${EXPORTERS_DEPS_DIR}/sdk/torch/share/cmake/Torch)
# libtorch's headers are not ours: their warnings stay out of our -Werror.
set_target_properties(torch PROPERTIES SYSTEM ON)
include(TorchHeaders)
exporters_hide_bundled_headers(${PROJECT_BINARY_DIR}/torch_include)

if(EXPORTERS_WITH_ONNX)
  find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_writer.hpp REQUIRED)
  add_library(protozero::protozero INTERFACE IMPORTED)
  target_include_directories(protozero::protozero INTERFACE ${PROTOZERO_INCLUDE_DIR})

  set(ONNXRUNTIME_HINT ${EXPORTERS_DEPS_DIR}/onnxruntime)
  include(OnnxRuntime)
  if(NOT TARGET onnxruntime::onnxruntime)
    message(FATAL_ERROR "ONNX Runtime was not found: run scripts/setup, or set ONNXRUNTIME_ROOT to an "
                        "installation with include/ and lib/, or build with -DEXPORTERS_WITH_ONNX=OFF")
  endif()
endif()

if(EXPORTERS_WITH_EXECUTORCH)
  find_program(FLATC flatc)
  find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h)
  find_path(XXHASH_INCLUDE_DIR xxhash.h)
  if(NOT FLATC OR NOT FLATBUFFERS_INCLUDE_DIR OR NOT XXHASH_INCLUDE_DIR)
    message(FATAL_ERROR "flatc, flatbuffers/flatbuffers.h or xxhash.h was not found: run scripts/setup, install "
                        "flatbuffers-compiler, libflatbuffers-dev and libxxhash-dev, or build with "
                        "-DEXPORTERS_WITH_EXECUTORCH=OFF")
  endif()
  set(EXECUTORCH_HINT ${EXPORTERS_DEPS_DIR}/executorch/executorch)
  include(ExecuTorch)
  if(NOT TARGET executorch::executorch)
    message(FATAL_ERROR "ExecuTorch was not found: run scripts/setup, or set EXECUTORCH_ROOT to an installation laid "
                        "out as its wheel, or build with -DEXPORTERS_WITH_EXECUTORCH=OFF")
  endif()
endif()
