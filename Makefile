.PHONY: help image console run test check fix bench bench-log bench-capsule proof-agent proof-model proof-screen proof-browser proof-console proof-desktop fuzz sim sim-long clean

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

image: ## Build the images of boxes, or only FLAVOUR=core, light or desktop
	@for flavour in $(or $(FLAVOUR),core light desktop); do image/build "$$flavour" || exit; done

console: ## Build the console, which becomes a part of the api
	@bash -c 'source tools/lib.sh && build_console'

run: ## Do the main job with a real box, on embedded defaults
	@tools/run

test: ## Set up what the tests need and pass every test
	@tools/test

check: ## Format, lints, licences, protocol files, docs
	@tools/check

fix: ## Format
	@cargo fmt --all

bench: ## Measure; prints the tables of the README
	@tools/bench/run

bench-log: ## Measure the stores beside JetStream, plain PostgreSQL and raw SQLite
	@tools/bench/peers

bench-capsule: ## Measure the time capsule beside restic, borg, rustic and bupstash
	@tools/bench/capsule/run

proof-agent: ## Play a task with coding CLIs from npm, by our gateway, and with our agent (700 MB)
	@tools/proof/agent

proof-model: ## Do a task with a real, small model, offline (150 MB)
	@tools/proof/model

proof-screen: ## Drive a real desktop with TigerVNC's viewer and vncdotool
	@tools/proof/screen

proof-desktop: ## Look with a harness from PyPI whether the computer tool's input arrives
	@tools/proof/desktop
proof-browser: ## Play MiniWoB++ in a box's browser by refs, with policies for a model
	@tools/proof/browser/run

proof-console: ## Use the console in a real browser, with a real box; with MINUTES=60, watch its memory for so long
	@tools/proof/console/run

fuzz: ## Feed every decoder of foreign bytes, SECONDS (5) each
	@tools/fuzz/run $(SECONDS)

sim: ## Simulate 200 seeds, or SEED=n alone (FAULTS=n, SIM_ARGS='--trace')
	@cargo run -q -p cocoonbox-sim -- $(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults $(FAULTS)) $(SIM_ARGS)

sim-long: ## Simulate seeds until stopped (FROM=n begins elsewhere)
	@cargo run -q --release -p cocoonbox-sim -- --long $(if $(FROM),--from $(FROM)) $(SIM_ARGS)

clean: ## Remove what was built (boxes and logs are not touched)
	@cargo clean
