CARGO ?= cargo
# The parts that run; building them by name spares a newcomer the test crates.
PARTS = -p baton-scheduler -p baton-runner -p baton-cli
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help build run test lint fmt bench bench-smoke soak races ci

help: ## list what can be done
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build scheduler, runner and CLI into target/debug
	$(CARGO) build $(PARTS)

run: build ## start a scheduler and a runner, run examples/dependencies.yaml, show its result, stop
	@sh examples/run-demo.sh target/debug

test: ## run every test; those on PostgreSQL when its server is installed
# Parts and test programs in one build: their features are unified once, so that nothing is compiled twice.
	$(CARGO) build --workspace --bins --tests
	$(CARGO) test --workspace $(ARGS)

lint: ## check formatting, clippy and, when buf is installed, the protocol
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@if command -v buf > /dev/null; then cd proto && buf lint && echo "buf lint: clean"; \
	  else echo "buf is not installed: the protocol was not linted (pip install buf-bin)"; fi

fmt: ## format the code
	$(CARGO) fmt --all

bench: ## measure against the floor of this machine (ARGS="--help" for more)
	$(CARGO) build --release $(PARTS) -p baton-bench --bins
	target/release/baton-bench $(ARGS)

bench-smoke: ## run every benchmark small, in the debug build, to see that it works
	$(CARGO) build --workspace --bins --tests
	target/debug/baton-bench --smoke $(ARGS)

soak: ## kill and freeze parts at random, then compare ledger, database and marks (SEED= MINUTES= ...)
	$(CARGO) build --workspace --bins --tests
	target/debug/baton-soak

races: ## run what must come out right every time as often as its cases ask for
	$(CARGO) build --workspace --bins --tests
	BATON_TEST_LONG=1 $(CARGO) test -p baton-tests --test system races:: -- --test-threads=1

ci: lint test run ## what the robot runs: all of the above, and a minute of the soak
	$(MAKE) soak MINUTES=1
