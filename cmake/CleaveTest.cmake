find_package(GTest REQUIRED)

# cleave_add_test(<name> SOURCES <file>... LINKS <module>... [USES <target>...] [LABEL unit|slow])
#
# One program of GoogleTest tests. USES names external libraries that only the tests need.
function(cleave_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL" "SOURCES;LINKS;USES")
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  list(TRANSFORM arg_LINKS PREPEND cleave::)
  add_executable(${name}_test ${arg_SOURCES})
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name}_test PRIVATE CLEAVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name}_test PRIVATE ${arg_LINKS} ${arg_USES} cleave_warnings
                                             GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT 300)
endfunction()
