# The front door. `make help` lists the targets.
BUILD ?= build
JOBS ?= $(shell nproc)
PORT ?= 8000
SHARED ?= $(abspath ../shared)
MODELS ?= $(or $(OCTAVO_REAL_MODELS),$(HOME)/.cache/octavo/models)
VENV := $(BUILD)/venv
CONFIGURE = cmake -S . -G Ninja -DOCTAVO_SHARED_DIR=$(SHARED)

.PHONY: help deps deps-test configure build serve model test test-isa unit golden e2e real-models lint tidy format sanitize asan tsan fuzz bench compare clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

deps: ## install the Debian packages that building and serving need
	@tools/install_packages.sh build

deps-test: ## ... and those that tests and lint need
	@tools/install_packages.sh test

configure: deps
	@$(CONFIGURE) -B $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@mv $(BUILD).log $(BUILD)/configure.log

build: configure ## the Release binary, build/octavo
	@cmake --build $(BUILD) -j $(JOBS) --target octavo

model: deps ## fetch SmolLM2-135M-Instruct into ~/.cache/octavo
	@tools/get_smollm2.sh >/dev/null

serve: build model ## build, fetch SmolLM2-135M-Instruct and serve it on port 8000
	@tools/serve.sh $(BUILD)/octavo $(PORT)

$(VENV)/ready: tests/requirements.txt
	@python3 -m venv $(VENV)
	@$(VENV)/bin/pip install --disable-pip-version-check -q -r tests/requirements.txt
	@touch $@

real-models: deps-test
	@test -f $(MODELS)/ready || { $(SHARED)/tools/get-real-models $(MODELS) && touch $(MODELS)/ready; }

test: deps-test configure real-models $(VENV)/ready ## every test: unit, golden, end to end; ends with the count
	@cmake --build $(BUILD) -j $(JOBS)
	@OCTAVO_SHARED=$(SHARED) OCTAVO_REAL_MODELS=$(MODELS) $(VENV)/bin/python tests/run.py --build $(BUILD)

test-isa: deps-test configure ## the kernel tests on emulated CPUs, Nehalem to AMX (the emulator builds once: 14 minutes)
	@$(SHARED)/tools/setup-x86-emulation
	@cmake --build $(BUILD) -j $(JOBS) --target kernels_tests ops_tests
	@python3 tests/run_isa.py --build $(BUILD) --tools $(SHARED)/tools

unit: deps-test configure ## the unit and golden tests only
	@cmake --build $(BUILD) -j $(JOBS)
	@OCTAVO_SHARED=$(SHARED) OCTAVO_REAL_MODELS=$(MODELS) python3 tests/run.py --build $(BUILD) --only unit

e2e: build real-models $(VENV)/ready ## the end-to-end tests only
	@OCTAVO_SHARED=$(SHARED) OCTAVO_REAL_MODELS=$(MODELS) $(VENV)/bin/python tests/run.py --build $(BUILD) --only e2e

lint: deps-test configure ## formatting, layers, kernel objects, clang-tidy
	@python3 tests/check_layers.py
	@git ls-files '*.cc' '*.h' '*.inl' | xargs clang-format --dry-run -Werror
	@python3 tests/check_objects.py $(BUILD)
	@$(MAKE) -s tidy

tidy: deps-test configure ## clang-tidy over the sources
	@python3 tests/run_tidy.py $(BUILD) -j $(JOBS)

format: ## clang-format everything
	@git ls-files '*.cc' '*.h' '*.inl' | xargs clang-format -i

sanitize: asan tsan ## the unit tests under ASan+UBSan, engine and server under TSan

asan: deps-test
	@$(CONFIGURE) -B $(BUILD)-asan -DOCTAVO_SANITIZE=address -DOCTAVO_BENCH=OFF >/dev/null
	@cmake --build $(BUILD)-asan -j $(JOBS)
	@OCTAVO_SHARED=$(SHARED) python3 tests/run.py --build $(BUILD)-asan --only sanitized

tsan: deps-test
	@$(CONFIGURE) -B $(BUILD)-tsan -DOCTAVO_SANITIZE=thread -DOCTAVO_BENCH=OFF >/dev/null
	@cmake --build $(BUILD)-tsan -j $(JOBS) --target base_tests engine_tests frontend_tests server_tests
	@OCTAVO_SHARED=$(SHARED) python3 tests/run.py --build $(BUILD)-tsan --only threads

fuzz: deps-test ## build the fuzz targets with clang and run each for FUZZ_SECONDS (default 30)
	@$(CONFIGURE) -B $(BUILD)-fuzz -DOCTAVO_FUZZ=ON -DOCTAVO_TESTS=OFF -DOCTAVO_BENCH=OFF -DCMAKE_CXX_COMPILER=clang++ >/dev/null
	@cmake --build $(BUILD)-fuzz -j $(JOBS) --target fuzzers
	@nice -n 15 python3 tests/fuzz/run.py $(BUILD)-fuzz --seconds $(or $(FUZZ_SECONDS),30) --shared $(SHARED)

bench: deps-test configure model ## limits of this machine, kernels, model, server; one JSON line a result
	@cmake --build $(BUILD) -j $(JOBS)
	@python3 bench/run.py --build $(BUILD) --server --out $(BUILD)/bench.jsonl

compare: deps-test configure ## Octavo beside its peers; ARGS="--prepare" once, then ARGS="--quick" or none
	@cmake --build $(BUILD) -j $(JOBS) --target octavo bench_offline probe_bandwidth probe_flops
	@OCTAVO_REAL_MODELS=$(MODELS) python3 bench/compare --build $(BUILD) $(ARGS)

clean: ## remove the build folders
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-fuzz
