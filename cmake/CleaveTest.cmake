find_package(GTest REQUIRED)
find_package(nlohmann_json REQUIRED)

# Test code takes longer to compile than to run, unless it is not optimised; what it tests is. Most of the time to compile a
# file of tests goes into the templates of these two libraries, so several files are one unit here as in the modules.
set(CLEAVE_TEST_OPTIONS -O0 ${CLEAVE_PRECOMPILED})

# These headers take seconds to read: once for all test programs.
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/test_header.cpp CONTENT "")
add_library(cleave_test_header OBJECT ${CMAKE_BINARY_DIR}/test_header.cpp)
target_link_libraries(cleave_test_header PRIVATE cleave_warnings GTest::gtest nlohmann_json::nlohmann_json)
target_compile_options(cleave_test_header PRIVATE ${CLEAVE_TEST_OPTIONS})
target_precompile_headers(cleave_test_header PRIVATE <gtest/gtest.h> <nlohmann/json.hpp>)

function(cleave_compile_as_test target)
  target_compile_options(${target} PRIVATE ${CLEAVE_TEST_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM cleave_test_header)
endfunction()

# Where this checkout is: support/paths.h.
add_library(cleave_test_paths STATIC ${PROJECT_SOURCE_DIR}/tests/support/paths.cpp)
target_include_directories(cleave_test_paths PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(cleave_test_paths PRIVATE CLEAVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                     CLEAVE_BINARY="$<TARGET_FILE:cleave>")

# The cost of a test that takes several processors: such tests come first. Once tests of one processor run on all of them,
# ctest begins another of those whenever one ends, and the others are left for the end, one after the other. That is where
# tests without this cost belong whose ranks must answer within seconds.
set(CLEAVE_COST_OF_SEVERAL_PROCESSORS 200)

# Seconds after which a test counts as hanging: many times what it takes, since it may share its cores
# with anything. Sanitizers make programs slower still.
set(CLEAVE_TEST_PATIENCE 600)
if(CLEAVE_SANITIZE)
  set(CLEAVE_TEST_PATIENCE 1800)
endif()

# cleave_add_test(<name> SOURCES <file>... LINKS <module>... [USES <target>...] [LABEL unit|slow]
#                 [OPTIMISED] [PARTS <n>])
#
# One program of GoogleTest tests. USES names external libraries that only the tests need; OPTIMISED is
# for tests that compute much themselves; PARTS runs it as <name>_1 ... <name>_<n>, which may go side by
# side. Slow ones and those of several parts are begun early: none is left over when all else is done.
function(cleave_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OPTIMISED" "LABEL;PARTS" "SOURCES;LINKS;USES")
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  set(cost 1)
  if(arg_PARTS OR arg_LABEL STREQUAL slow)
    set(cost 50)
  endif()
  list(TRANSFORM arg_LINKS PREPEND cleave::)
  add_executable(${name}_test ${arg_SOURCES})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE ${arg_LINKS} ${arg_USES} cleave_warnings
                                             cleave_test_paths GTest::gtest_main)
  if(NOT arg_OPTIMISED)
    cleave_compile_as_test(${name}_test)
  endif()
  if(NOT arg_PARTS)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${CLEAVE_TEST_PATIENCE} COST ${cost})
    return()
  endif()
  math(EXPR last "${arg_PARTS} - 1")
  foreach(index RANGE ${last})
    math(EXPR part "${index} + 1")
    add_test(NAME ${name}_${part} COMMAND ${name}_test)
    set_tests_properties(${name}_${part} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${CLEAVE_TEST_PATIENCE} COST ${cost}
                         ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_PARTS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# cleave_add_lowered_test(<name> [FILTER <GoogleTest filter>])
#
# Runs a program of cleave_add_test again as on processors with less: SSE4 only, AVX2 only.
function(cleave_add_lowered_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "FILTER" "")
  foreach(level sse4 avx2)
    add_test(NAME ${name}_with_${level} COMMAND ${PROJECT_SOURCE_DIR}/tests/support/lowered ${level}
                                                $<TARGET_FILE:${name}_test>)
    set_tests_properties(${name}_with_${level} PROPERTIES LABELS unit TIMEOUT ${CLEAVE_TEST_PATIENCE} SKIP_RETURN_CODE 77)
    if(arg_FILTER)
      set_tests_properties(${name}_with_${level} PROPERTIES ENVIRONMENT "GTEST_FILTER=${arg_FILTER}")
    endif()
  endforeach()
endfunction()

# cleave_use_accelerators(<test>...)
#
# Lets tests keep what a driver compiles beside the build, one for all of them: the first, ops_accelerator, compiles
# every kernel, which takes a loaded machine a minute or more; the others begin after it.
function(cleave_use_accelerators)
  foreach(test IN LISTS ARGN)
    set_tests_properties(${test} PROPERTIES TIMEOUT 900 COST 80
                         ENVIRONMENT "XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/kernels;${CLEAVE_MPI_ENVIRONMENT}")
    if(NOT test STREQUAL ops_accelerator)
      set_tests_properties(${test} PROPERTIES DEPENDS ops_accelerator)
    endif()
  endforeach()
endfunction()

# cleave_add_mpi_test(<name> RANKS <n>... SOURCES <file>... LINKS <module>...)
#
# One program of GoogleTest tests, run once per number of ranks as real MPI processes on this machine.
# A deadlock is a failure: it hits the time limit. Left out in a build without MPI, and under ThreadSanitizer,
# which does not know what MPI does.
function(cleave_add_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "RANKS;SOURCES;LINKS")
  if(CLEAVE_SANITIZE STREQUAL "thread" OR NOT CLEAVE_WITH_MPI)
    return()
  endif()
  list(TRANSFORM arg_LINKS PREPEND cleave::)
  add_executable(${name}_test ${arg_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp)
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE ${arg_LINKS} cleave_warnings GTest::gtest)
  cleave_compile_as_test(${name}_test)
  foreach(ranks IN LISTS arg_RANKS)
    add_test(NAME ${name}_on_${ranks}_ranks
             COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
                     $<TARGET_FILE:${name}_test> ${ranks})
    set_tests_properties(${name}_on_${ranks}_ranks PROPERTIES LABELS mpi TIMEOUT ${CLEAVE_TEST_PATIENCE}
                         PROCESSORS ${ranks} COST ${CLEAVE_COST_OF_SEVERAL_PROCESSORS}
                         ENVIRONMENT "${CLEAVE_MPI_ENVIRONMENT}")
  endforeach()
endfunction()

# mpirun on one machine: as root in a container, more ranks than cores, shared memory only.
# LeakSanitizer would report what Open MPI keeps until the end.
set(CLEAVE_MPI_ENVIRONMENT
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
  HWLOC_COMPONENTS=-opencl OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_oob_tcp_if_include=lo
  ASAN_OPTIONS=detect_leaks=0)
