# cmake -DSOURCE=<checkout> -DOUTPUT=<header> -P WriteCommit.cmake
#
# Writes the commit of the checkout into a header, and leaves the file alone if it is there already, so
# that nothing is compiled again. CLEAVE_COMMIT in the environment wins: a package has no repository.
cmake_minimum_required(VERSION 3.25)
if(DEFINED ENV{CLEAVE_COMMIT})
  set(commit $ENV{CLEAVE_COMMIT})
else()
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=9 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT commit)
  set(commit unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define CLEAVE_COMMIT \"@commit@\"\n" @ONLY)
