# Installs the package and builds and runs the examples against it, as a user would.
#   cmake -D BUILD=… -D SOURCE=… -D WORK=… -D ARGS=… -D EXAMPLES=… -P check.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "failed (${status}): ${command}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})

# What is installed knows nothing of the folder it was built in.
file(GLOB installed ${prefix}/bin/* ${prefix}/lib/*.so ${prefix}/lib/cmake/exporters/*)
foreach(file IN LISTS installed)
  file(STRINGS ${file} found REGEX "${SOURCE}/" LIMIT_COUNT 1)
  if(found)
    message(FATAL_ERROR "${file} names the build's own folders: ${found}")
  endif()
endforeach()

if(EXISTS ${prefix}/bin/hfx)
  run(${prefix}/bin/hfx --version)
endif()
foreach(example IN LISTS EXAMPLES)
  run(${CMAKE_COMMAND} -S ${SOURCE}/examples/${example} -B ${WORK}/${example} -G Ninja
      -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_BUILD_TYPE=Release ${ARGS})
  run(${CMAKE_COMMAND} --build ${WORK}/${example})
  run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/${example}/${example})
endforeach()
