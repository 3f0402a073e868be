# Warnings, sanitizers and the compiler cache: everything that is about the compiler and not about cleave.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                  ${CCACHE})
endif()

# What a target with a precompiled header needs so that the cache sees through it.
set(CLEAVE_PRECOMPILED "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>")

add_library(cleave_warnings INTERFACE)
target_compile_options(cleave_warnings INTERFACE -Wall -Wextra -Wpedantic -Wconversion
                                                 -Wno-sign-conversion
                                                 -Wno-missing-field-initializers)
if(CLEAVE_WERROR)
  target_compile_options(cleave_warnings INTERFACE -Werror)
endif()

# Fused multiply-adds only where a kernel asks for one. A compiler would fuse where it likes: a vector
# loop and its tail differently, and on some processors only.
add_compile_options(-ffp-contract=off)

# A test of every pointer before its use doubles the time to compile; what it would find,
# AddressSanitizer finds too (null, object-size) or the vector instructions do (alignment).
if(CLEAVE_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,object-size,alignment,vptr
                      -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(CLEAVE_SANITIZE STREQUAL "undefined")  # twice the executions of a fuzz target under "address"
  add_compile_options(-fsanitize=undefined -fno-sanitize=null,object-size,alignment,vptr -fno-sanitize-recover=all)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=undefined)
elseif(CLEAVE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

if(CLEAVE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
  if(CLEAVE_SANITIZE STREQUAL "undefined")  # what is compared is not told, a third of the time
    add_compile_options(-fno-sanitize-coverage=trace-cmp)
  endif()
endif()
