# Cross-compiles for AArch64 against a root of Debian packages, and runs what it built under qemu.
# scripts/setup-arm makes the root and installs the compiler.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CLEAVE_ARM_ROOT)
set(CMAKE_SYSROOT ${CLEAVE_ARM_ROOT})
set(CMAKE_FIND_ROOT_PATH ${CLEAVE_ARM_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CLEAVE_ARM_ROOT})

# The wrapper that knows where MPI is cannot be asked: it is a program for AArch64.
set(openmpi ${CLEAVE_ARM_ROOT}/usr/lib/aarch64-linux-gnu/openmpi)
set(MPI_CXX_LIB_NAMES mpi CACHE STRING "")
set(MPI_mpi_LIBRARY ${openmpi}/lib/libmpi.so CACHE FILEPATH "")
set(MPI_CXX_HEADER_DIR ${openmpi}/include CACHE PATH "")
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CLEAVE_ARM_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CLEAVE_ARM_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
