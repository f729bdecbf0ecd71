.PHONY: help run test check fix bench clean

help: ## Say what there is
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

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

clean: ## Remove what was built (boxes and logs are not touched)
	@cargo clean
