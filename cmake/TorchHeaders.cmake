# libtorch's include folder also carries third-party headers (fmt, Google's protobuf, …) of versions that
# differ from the installed ones. A file that saw them first would not fit the libraries it links.

# exporters_hide_bundled_headers(FOLDER): libtorch's targets get FOLDER as their include root: links to all
# that libtorch's own holds, but for those.
function(exporters_hide_bundled_headers folder)
  list(GET TORCH_INCLUDE_DIRS 0 include)
  get_filename_component(include "${include}" ABSOLUTE)
  file(REMOVE_RECURSE ${folder})
  file(MAKE_DIRECTORY ${folder})
  file(GLOB entries RELATIVE ${include} ${include}/*)
  list(REMOVE_ITEM entries fmt google nlohmann spdlog)
  foreach(entry IN LISTS entries)
    file(CREATE_LINK ${include}/${entry} ${folder}/${entry} SYMBOLIC)
  endforeach()

  foreach(target c10 torch_cpu torch)
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${folder})
  endforeach()
  set_property(TARGET torch APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${folder}/torch/csrc/api/include)
  # Folders of an MKL that is not there would end up in every rpath.
  if(TARGET caffe2::mkl)
    set_target_properties(caffe2::mkl PROPERTIES INTERFACE_LINK_DIRECTORIES "" INTERFACE_INCLUDE_DIRECTORIES "")
  endif()
endfunction()
