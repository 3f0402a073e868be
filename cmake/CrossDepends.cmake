# What packages of another processor depend on, set while cpack runs. dpkg-shlibdeps knows the libraries of this machine
# alone; each library that a program names has a line in the root's shlibs (scripts/setup-arm), as Debian's packages say it.
cmake_minimum_required(VERSION 3.25)  # which cpack does not ask for itself
file(STRINGS ${CPACK_CLEAVE_ROOT}/shlibs shlibs)

# cleave_depends(<variable> <program or library>): the packages of the libraries that it names, as a Depends field.
function(cleave_depends out file)
  execute_process(COMMAND ${CPACK_CLEAVE_READELF} -d ${file} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "Shared library: \\[[^]]+\\]" named "${dynamic}")
  set(depends "")
  foreach(line IN LISTS named)
    string(REGEX REPLACE ".*\\[(.+)\\]" "\\1" soname "${line}")
    string(REGEX REPLACE "^(.+)\\.so\\.(.+)$" "\\1 \\2 " wanted ${soname})
    set(package "")
    foreach(row IN LISTS shlibs)
      string(FIND "${row}" "${wanted}" at)
      if(at EQUAL 0)
        string(REPLACE "${wanted}" "" package "${row}")
        break()
      endif()
    endforeach()
    if(NOT package AND NOT soname MATCHES "^libcleave\\.")  # which a line of CleavePackage names
      message(FATAL_ERROR "no package of ${CPACK_CLEAVE_ROOT} has ${soname}, which ${file} needs")
    endif()
    list(APPEND depends ${package})
  endforeach()
  list(REMOVE_DUPLICATES depends)
  list(JOIN depends ", " depends)
  set(${out} "${depends}" PARENT_SCOPE)
endfunction()

if(NOT "edge" IN_LIST CPACK_COMPONENTS_ALL)  # which needs no library
  cleave_depends(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS ${CPACK_CLEAVE_BUILD}/cleave)
  cleave_depends(depends ${CPACK_CLEAVE_BUILD}/libcleave.so)
  string(APPEND CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS ", ${depends}")
endif()
