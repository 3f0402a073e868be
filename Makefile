# The front door. Every target installs what is missing first (scripts/setup).

JOBS ?= $(shell nproc)
PRESET ?= release
CLEAVE = build/release/cleave
INSTALL_TO = $(abspath $(subst ~,$(HOME),$(or $(PREFIX),/usr/local)))

.PHONY: help setup build test test-arm test-all quickstart fuzz campaign-kill campaign-flip campaign-mutants campaign-loss campaign-clients campaign-load bench format lint headers install can-install uninstall package check-package package-arm check-package-arm
help:            ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 16

setup:
	@scripts/setup --quiet

build: setup     ## the program, at build/release/cleave
	@cmake --preset $(PRESET) >/dev/null
	@cmake --build --preset $(PRESET) -j $(JOBS)

# One test more than there are cores: many wait for a network, a deadline or each other.
test: build      ## every test; ends with ctest's summary
	@ctest --test-dir build/$(PRESET) --output-on-failure -j $$(($(JOBS) + 1))

test-arm: setup  ## base to ops, small trainings, and clients of a server here, on AArch64, cross-compiled, under qemu
	@scripts/setup-arm
	@scripts/test-arm

.PHONY: edge edge-arm test-edge check-kernels
edge: setup      ## cleave-edge, the client of small machines, with everything linked in: build/edge/cleave-edge
	@cmake --preset edge >/dev/null
	@cmake --build build/edge -j $(JOBS) --target cleave-edge

edge-arm: setup  ## the same for AArch64, cross-compiled: build/edge-arm/cleave-edge
	@scripts/setup-arm
	@cmake --preset edge-arm >/dev/null
	@cmake --build build/edge-arm -j $(JOBS) --target cleave-edge

test-edge: setup ## holds that client to its size, to the weights of cleave join, and to 64 MiB of memory
	@scripts/test-edge

test-all: test   ## and every case of `auto` and of layouts, and the sanitizer runs
	@CLEAVE_ALL_CASES=1 build/$(PRESET)/tests/plan/auto_quality_test --gtest_brief=1
	@CLEAVE_ALL_CASES=1 build/$(PRESET)/tests/train/train_engine_test --gtest_brief=1
	@scripts/sanitize all

# The program alone, without tests.
.PHONY: program example-vision example-vlm example-federated
program: setup
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target cleave

quickstart: program  ## train a small GPT on four devices, about a minute after the build
	@scripts/quickstart

example-vision: program  ## train a ViT on Fashion-MNIST on four devices, some minutes after the build
	@scripts/example_vision

example-vlm: program  ## train a small vision-language model on Tux Paint's stamps on four devices, some minutes after the build
	@scripts/example_vlm

example-federated: program  ## ten clients learn Fashion-MNIST in five ways, ROUNDS=3 each; some minutes after the build
	@scripts/example_federated

fuzz:            ## every parser, SECONDS=600 each; what breaks one is shown
	@scripts/setup --quiet
	@scripts/fuzz $(or $(SECONDS),600)

campaign-kill campaign-flip campaign-mutants campaign-loss campaign-clients campaign-load: build  ## COUNT times: kills around saving, flipped bytes, broken programs, lost devices, killed clients; COUNT seconds: a busy machine
	@scripts/campaign $(subst campaign-,,$@) $(COUNT)

bench: build     ## how fast cleave is on this machine, a few minutes
	@$(CLEAVE) bench schedule
	@$(CLEAVE) bench step --dtype f32 --repeats 3
	@$(CLEAVE) bench step --dtype bf16 --repeats 3

format: setup    ## clang-format on all sources
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

lint: headers    ## clang-tidy on all sources, or on FILES="a.cpp b.cpp"
	@cmake --preset release -B build/lint -DCMAKE_UNITY_BUILD=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
	@printf '%s\n' $(or $(FILES),$(shell git ls-files 'src/*.cpp' 'apps/*.cpp')) | \
	  xargs -P $(JOBS) -n 4 clang-tidy-16 -p build/lint --quiet

check-kernels: build  ## compile the kernels of accelerators for all targets that clang has, and run their tests under Oclgrind
	scripts/check_kernels
	scripts/check_oclgrind

headers: setup   ## does every header compile alone?
	@git ls-files 'src/*.h' | xargs -P $(JOBS) -I{} $(CXX) -std=c++20 -Isrc -fsyntax-only -x c++ -w {}

install: can-install setup  ## into PREFIX (default /usr/local), without building the tests
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS) --target product
	@cmake --install build/release --prefix "$(INSTALL_TO)" >/dev/null
	@echo "install: $(INSTALL_TO)/bin/cleave, libraries, man pages and completion; listed in build/release/install_manifest.txt"

can-install:
	@mkdir -p "$(INSTALL_TO)" 2>/dev/null && test -w "$(INSTALL_TO)" || \
	  { echo "install: cannot write to $(INSTALL_TO); choose another place, as in make install PREFIX=~/x" >&2; exit 2; }

uninstall:       ## what the last install wrote
	@test -f build/release/install_manifest.txt || { echo "uninstall: build/release has installed nothing" >&2; exit 2; }
	@scripts/uninstall build/release/install_manifest.txt

package: setup   ## Debian packages, in build/package
	@scripts/package

check-package: package  ## install them in a clean Debian 12, use all of them there, remove them; as root, minutes
	@command -v mmdebstrap >/dev/null || apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
	@scripts/check_package

package-arm: setup   ## the same for AArch64, cross-compiled, in build/package-arm
	@scripts/package --arm

check-package-arm: program package-arm  ## make a Debian 12 of AArch64 of them, and use it under qemu; minutes
	@scripts/check_package_arm
