# With CLEAVE_STATIC programs carry everything with them. Debian has static libraries for most of what cleave uses; for
# the rest, headers suffice (fmt, toml++), a file of ours stands in (Highway: ops/simd/highway_targets.cpp), or it is left
# out (hwloc, sentencepiece: CleaveLibraries.cmake).
if(NOT CLEAVE_STATIC)
  return()
endif()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE OFF)
add_compile_options(-ffunction-sections -fdata-sections)

# cleave_stand_in(<package> <target> <definition>...): what find_package(<package>) finds instead of a shared library.
function(cleave_stand_in package target)
  list(JOIN ARGN " " definitions)
  file(WRITE ${CMAKE_FIND_PACKAGE_REDIRECTS_DIR}/${package}-config.cmake
    "if(NOT TARGET ${target})\n  add_library(${target} INTERFACE IMPORTED)\n"
    "  target_compile_definitions(${target} INTERFACE ${definitions})\nendif()\n")
endfunction()
cleave_stand_in(fmt fmt::fmt FMT_HEADER_ONLY=1)
cleave_stand_in(tomlplusplus tomlplusplus::tomlplusplus TOML_HEADER_ONLY=1)
cleave_stand_in(hwy hwy::hwy)
