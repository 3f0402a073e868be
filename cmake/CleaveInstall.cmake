# What `cmake --install` puts where: the program with its man pages and completion (component "program"),
# the libraries with headers, CMake package and cleave.pc (component "dev"). cleave_module() adds each module
# through cleave_install_module(); cleave_install_package(), called last, writes what lists them all.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Headers alone, compiled in: nobody who uses the libraries needs them.
set(CLEAVE_COMPILED_IN nlohmann_json::nlohmann_json CLI11::CLI11)

# cleave_hide_compiled_in(<variable> <target>...): the targets, as an exported library may name them.
function(cleave_hide_compiled_in out)
  set(links "")
  foreach(link IN LISTS ARGN)
    if(link IN_LIST CLEAVE_COMPILED_IN)
      list(APPEND links $<BUILD_INTERFACE:${link}>)
    else()
      list(APPEND links ${link})
    endif()
  endforeach()
  set(${out} ${links} PARENT_SCOPE)
endfunction()

# cleave_install_module(<name> <external target>...): into the component of the package that
# CLEAVE_COMPONENT names where it is declared (src/cleave/CMakeLists.txt).
function(cleave_install_module name)
  set_target_properties(cleave_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS cleave_${name} EXPORT cleave-${CLEAVE_COMPONENT}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
          FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
  set_property(GLOBAL APPEND PROPERTY CLEAVE_MODULES_${CLEAVE_COMPONENT} ${name})
  set_property(GLOBAL APPEND PROPERTY CLEAVE_LINKS_${CLEAVE_COMPONENT} ${ARGN})
endfunction()

# How users find an external library: a line of CMake, and what cleave.pc says. PkgConfig::<x> needs no row.
#   target                find_dependency(...)          Requires    Libs
set(CLEAVE_EXTERNALS
  "fmt::fmt|fmt|fmt|"
  "tomlplusplus::tomlplusplus|tomlplusplus|tomlplusplus|"
  "Threads::Threads|Threads||-pthread"
  "OpenMP::OpenMP_CXX|OpenMP||-fopenmp"
  "MPI::MPI_CXX|MPI COMPONENTS CXX|ompi-c|"
  "hwy::hwy|hwy|libhwy|"
  "OneDNN::OneDNN|OneDNN||-ldnnl"
  "OpenSSL::SSL|OpenSSL|openssl|"
  "OpenSSL::Crypto|OpenSSL|openssl|"
  "PNG::PNG|PNG|libpng|"
  "JPEG::JPEG|JPEG|libjpeg|"
  "SQLite::SQLite3|SQLite3|sqlite3|"
  "ZLIB::ZLIB|ZLIB|zlib|"
  "OpenCL::OpenCL|OpenCL|OpenCL|"
  "clblast|CLBlast|clblast|")

# cleave_find_lines(<component>): sets find_lines (CMake code), pc_requires and pc_libs in the caller.
function(cleave_find_lines component)
  get_property(links GLOBAL PROPERTY CLEAVE_LINKS_${component})
  list(REMOVE_DUPLICATES links)
  list(REMOVE_ITEM links ${CLEAVE_COMPILED_IN})
  set(lines "")
  set(requires "")
  set(libs "")
  foreach(link IN LISTS links)
    set(row "")
    foreach(candidate IN LISTS CLEAVE_EXTERNALS)
      if(candidate MATCHES "^${link}\\|([^|]*)\\|([^|]*)\\|(.*)$")
        string(APPEND lines "  find_dependency(${CMAKE_MATCH_1})\n")
        list(APPEND requires ${CMAKE_MATCH_2})
        list(APPEND libs ${CMAKE_MATCH_3})
        set(row found)
        break()
      endif()
    endforeach()
    if(NOT row AND link MATCHES "^PkgConfig::(.*)$")
      set(prefix ${CMAKE_MATCH_1})
      set(pc_name ${${prefix}_MODULE_NAME})
      string(APPEND lines "  pkg_check_modules(${prefix} REQUIRED IMPORTED_TARGET ${pc_name})\n")
      list(APPEND requires ${pc_name})
    elseif(NOT row)
      message(WARNING "the installed package does not know how users find ${link}: add a row to CLEAVE_EXTERNALS")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES requires)
  set(find_lines "${lines}" PARENT_SCOPE)
  set(pc_requires "${requires}" PARENT_SCOPE)
  set(pc_libs "${libs}" PARENT_SCOPE)
endfunction()

# cleave-config.cmake, its version and targets, and cleave.pc, which lists the libraries last module first.
function(cleave_install_package)
  set(directory ${CMAKE_INSTALL_LIBDIR}/cmake/cleave)
  set(built planner)
  if(CLEAVE_ENGINE)
    list(APPEND built engine)
  endif()
  set(CLEAVE_PC_LIBS "")
  set(CLEAVE_PC_REQUIRES "")
  set(CLEAVE_COMPONENT_CODE "")
  foreach(component IN LISTS built)
    get_property(modules GLOBAL PROPERTY CLEAVE_MODULES_${component})
    cleave_find_lines(${component})
    set(whole ${component})
    if(component STREQUAL engine)
      set(whole cleave)  # cleave::engine is one of its modules
    endif()
    list(TRANSFORM modules PREPEND cleave:: OUTPUT_VARIABLE targets)
    list(JOIN targets " " targets)
    string(APPEND CLEAVE_COMPONENT_CODE
      "if(\"${component}\" IN_LIST cleave_wanted)\n${find_lines}  include(\${CMAKE_CURRENT_LIST_DIR}/cleave-${component}.cmake)\n"
      "  if(NOT TARGET cleave::${whole})\n    add_library(cleave::${whole} INTERFACE IMPORTED)\n"
      "    target_link_libraries(cleave::${whole} INTERFACE ${targets})\n  endif()\n"
      "  set(cleave_${component}_FOUND TRUE)\nendif()\n")
    list(TRANSFORM modules PREPEND -lcleave_)
    list(REVERSE modules)
    list(PREPEND CLEAVE_PC_LIBS ${modules})
    list(APPEND CLEAVE_PC_LIBS ${pc_libs})
    list(APPEND CLEAVE_PC_REQUIRES ${pc_requires})
    install(EXPORT cleave-${component} FILE cleave-${component}.cmake NAMESPACE cleave:: DESTINATION ${directory}
            COMPONENT dev)
  endforeach()
  list(REMOVE_DUPLICATES CLEAVE_PC_REQUIRES)
  list(JOIN CLEAVE_PC_LIBS " " CLEAVE_PC_LIBS)
  list(JOIN CLEAVE_PC_REQUIRES " " CLEAVE_PC_REQUIRES)
  set(CLEAVE_BUILT ${built})
  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cleave-config.cmake.in
    ${PROJECT_BINARY_DIR}/cleave-config.cmake INSTALL_DESTINATION ${directory})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/cleave-config-version.cmake COMPATIBILITY SameMinorVersion)
  file(RELATIVE_PATH CLEAVE_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/cleave.pc.in ${PROJECT_BINARY_DIR}/cleave.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/cleave-config.cmake ${PROJECT_BINARY_DIR}/cleave-config-version.cmake
                ${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake
          DESTINATION ${directory} COMPONENT dev)
  install(FILES ${PROJECT_BINARY_DIR}/cleave.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
endfunction()
