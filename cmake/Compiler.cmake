# Warnings are errors in our own code; ccache hits across checkouts; sanitizers on request.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

# Messages name a file by its place in the project, never by the builder's folders.
add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)

add_library(exporters_warnings INTERFACE)
target_compile_options(exporters_warnings INTERFACE -Wall -Wextra -Werror -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ sees overflows in inlined std::string operations where there are none (GCC bug 105651 and its
  # relatives); the sanitizer build finds the real ones.
  target_compile_options(exporters_warnings INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow
                         -Wno-stringop-overread)
endif()

if(EXPORTERS_SANITIZE)
  add_compile_options(-fsanitize=${EXPORTERS_SANITIZE} -fno-sanitize-recover=all -fno-sanitize=vptr)
  add_link_options(-fsanitize=${EXPORTERS_SANITIZE})
endif()

find_program(EXPORTERS_CCACHE ccache)
if(EXPORTERS_CCACHE)
  # base_dir and nohashdir make the paths of two checkouts look alike to ccache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_MAXSIZE=5G ${EXPORTERS_CCACHE})
endif()

find_program(EXPORTERS_MOLD mold)
if(EXPORTERS_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
