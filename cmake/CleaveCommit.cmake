# cleave_know_commit(<target> <file>)
#
# Compiles <file> into <target> with the header cleave_commit.h. The commit changes often, so that one small file alone
# includes it.
set(CLEAVE_COMMIT_FOLDER ${PROJECT_BINARY_DIR}/commit)
add_custom_target(cleave_commit BYPRODUCTS ${CLEAVE_COMMIT_FOLDER}/cleave_commit.h
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${CLEAVE_COMMIT_FOLDER}/cleave_commit.h
          -P ${PROJECT_SOURCE_DIR}/cmake/WriteCommit.cmake)
function(cleave_know_commit target file)
  add_dependencies(${target} cleave_commit)
  set_source_files_properties(${file} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON INCLUDE_DIRECTORIES ${CLEAVE_COMMIT_FOLDER})
endfunction()
