# One CMake target per room. A room sees the headers of the rooms it links and of no other: each room
# has an include root of its own in the build tree, with one link `exporters/<room>` to its folder.

# Precompiled headers for what is compiled against libtorch: its headers cost over two seconds a file.
option(EXPORTERS_PRECOMPILE "Precompile libtorch's headers" ON)

# exporters_precompiled_header(NAME LINK targets… HEADERS headers…): a precompiled header for exporters_precompile.
# Headers in angle brackets: CMake writes other headers with their full path, which another checkout does not share.
function(exporters_precompiled_header name)
  cmake_parse_arguments(ARG "" "" "LINK;HEADERS" ${ARGN})
  if(EXPORTERS_PRECOMPILE)
    file(WRITE ${PROJECT_BINARY_DIR}/${name}.cpp "")
    add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cpp)
    target_link_libraries(${name} PRIVATE ${ARG_LINK} exporters_warnings)
    target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  endif()
endfunction()

exporters_precompiled_header(exporters_precompiled LINK fmt::fmt torch HEADERS
  <ATen/core/Tensor.h> <ATen/core/dispatch/Dispatcher.h> <fmt/format.h>
  <functional> <map> <memory> <optional> <string> <string_view> <unordered_map> <variant> <vector>)

# exporters_precompile(TARGET [HEADER]): for targets that link libtorch.
function(exporters_precompile target)
  if(EXPORTERS_PRECOMPILE)
    set(header exporters_precompiled)
    if(ARGC GREATER 1)
      set(header ${ARGV1})
    endif()
    # A precompiled header fits only files with the same code model: also programs are compiled as libraries are.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
    target_precompile_headers(${target} REUSE_FROM ${header})
  endif()
endfunction()

# exporters_room(NAME LINK targets… [EXCLUDE folder]): an object library `room_NAME` of exporters/NAME/**.cpp, but for
# those below exporters/NAME/folder.
function(exporters_room name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "LINK" ${ARGN})
  set(folder ${PROJECT_SOURCE_DIR}/exporters/${name})
  set(include_root ${PROJECT_BINARY_DIR}/rooms/${name})
  file(MAKE_DIRECTORY ${include_root}/exporters)
  file(CREATE_LINK ${folder} ${include_root}/exporters/${name} SYMBOLIC)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "/${name}/${ARG_EXCLUDE}/")
  endif()
  if(sources)
    add_library(room_${name} OBJECT ${sources})
    set(scope PUBLIC)
    target_link_libraries(room_${name} PRIVATE exporters_warnings)
  else()
    add_library(room_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(room_${name} ${scope} ${include_root})
  foreach(target IN LISTS ARG_LINK)
    if(TARGET room_${target})
      target_link_libraries(room_${name} ${scope} room_${target})
    else()
      target_link_libraries(room_${name} ${scope} ${target})
    endif()
  endforeach()
  if(sources AND NOT name STREQUAL support)
    exporters_precompile(room_${name})
  endif()
endfunction()

# exporters_library(NAME ROOMS rooms… LINK targets…): a shared library of whole rooms.
function(exporters_library name)
  cmake_parse_arguments(ARG "" "" "ROOMS;LINK" ${ARGN})
  file(WRITE ${PROJECT_BINARY_DIR}/${name}_anchor.cpp "")
  add_library(${name} SHARED ${PROJECT_BINARY_DIR}/${name}_anchor.cpp)
  foreach(room IN LISTS ARG_ROOMS)
    get_target_property(type room_${room} TYPE)
    if(type STREQUAL OBJECT_LIBRARY)
      target_sources(${name} PRIVATE $<TARGET_OBJECTS:room_${room}>)
    endif()
  endforeach()
  target_link_libraries(${name} PUBLIC fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json torch ${ARG_LINK})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endfunction()
