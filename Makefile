# proxylist: everything a developer runs. `make` lists it.
.DEFAULT_GOAL := help
.PHONY: help run dev test bench torture soak mutate check fmt build clean screenshots

BUN_VERSION := $(shell sed -n 's/.*"packageManager": "bun@\([0-9.]*\)".*/\1/p' package.json)
LOCAL_BUN := .bun/node_modules/.bin/bun
# The pinned Bun: the one on PATH when it is that very version, else one installed in .bun.
BUN := $(shell [ "$$(bun --version 2>/dev/null)" = "$(BUN_VERSION)" ] && command -v bun || echo $(LOCAL_BUN))
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
READY := node_modules/.ready
BINARY := dist/proxylist
WORKERS := $(shell find src -name "*.worker.ts" | sort)
BINARY_TESTS := $(patsubst %,test/%.test.ts, \
  api/handler bootstrap cli/database cli/doctor cli/full-disk cli/geoip cli/import cli/key-life cli/operate \
  cli/program cli/progress cli/serve cli/serve-console cli/serve-feeds cli/serve-node-jobs cli/serve-nodes cli/stats cli/stdout \
  dependencies http/cors http/failures http/key http/reference http/stats lab/torture/fuzz/fuzz \
  lib/systemd secrets sqlite/access/store sqlite/backup/backup sqlite/backup/restore \
  sqlite/faults transfer/program transfer/refusals web/docs web/page/key web/page/try web/console/token)
# Files run in two processes, because many tests wait for a browser or a server. A busy machine is slow, not wrong.
TEST_OPTIONS := --parallel=2 --timeout=60000
SOURCES := $(shell find src -type f) data/sample.ndjson data/proxylist.service \
  package.json bun.lock tsconfig.json Makefile

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

run: $(READY) ## serve the sample list on 127.0.0.1:8080
	@$(BUN) src/main.ts serve --sample --data .run

dev: $(READY) ## the same; restarts when a source file changes, and open pages reload
	@$(BUN) test/lab/dev.ts

test: check build ## everything: format, lint, types, tests in process, tests of the binary
	$(BUN) test $(TEST_OPTIONS)
	PROXYLIST_BINARY="$(CURDIR)/$(BINARY)" $(BUN) test $(TEST_OPTIONS) $(BINARY_TESTS)

bench: $(BINARY) ## compare with baselines and print a table (ROWS=1000000, ONLY=…, BEFORE=…, DATABASE=…)
	@$(BUN) test/lab/bench/bench.ts

torture: $(BINARY) ## the long tests: fault, attack and load (ONLY=…, SEED=…, ROUNDS=…, SECONDS=…, PG_BIN=…)
	@$(BUN) test/lab/torture/torture.ts

soak: $(BINARY) ## a steady load during imports: nothing may grow (SECONDS=300, RATE=…, SEED=…)
	@$(BUN) test/lab/torture/soak/soak.ts

mutate: $(READY) ## mutation score: do tests notice small errors? (ONLY=…, SEED=…, SAMPLE=N or all)
	@$(BUN) test/lab/mutation/mutate.ts

screenshots: $(READY) ## pictures of the page for the README, into data/screenshots
	@$(BUN) test/lab/screenshots.ts

check: $(READY) ## format, lint, types and the rules of the house, without changing anything
	$(BUN) x biome check
	$(BUN) x tsc --noEmit
	$(BUN) x tsc --noEmit -p src/web
	$(BUN) test --only-failures test/tidy.test.ts

fmt: $(READY) ## format, and fix what the linter can fix
	$(BUN) x biome check --write

build: $(BINARY) ## write dist/proxylist, one self-contained executable

# Identifiers keep their names: Elysia looks at class names when it decides what is an error.
# Without file-type, which it loads for uploads only, the binary lacks eight packages it has no use for.
$(BINARY): $(READY) $(SOURCES)
	$(BUN) build --compile --bytecode --format=esm --sourcemap \
	  --minify-whitespace --minify-syntax \
	  --define 'process.env.NODE_ENV="production"' --define 'BUILD_COMMIT="$(COMMIT)"' \
	  --no-compile-autoload-dotenv --no-compile-autoload-bunfig \
	  --external file-type \
	  --compile-exec-argv="--max-http-header-size=8192" \
	  src/main.ts $(WORKERS) --outfile $@
	@env -i $@ version

clean: ## remove what the other targets made
	rm -rf dist .run .bun node_modules

$(READY): $(BUN) package.json bun.lock
	$(BUN) install --frozen-lockfile
	@touch $@

$(LOCAL_BUN):
	@echo "installing Bun $(BUN_VERSION) in .bun"
	@mkdir -p .bun
	@if command -v npm >/dev/null; then \
	  npm install --prefix .bun --no-audit --no-fund --loglevel=error bun@$(BUN_VERSION); \
	elif command -v bun >/dev/null; then \
	  cd .bun && echo '{}' > package.json && bun add --exact --trust bun@$(BUN_VERSION); \
	else echo "npm or Bun is needed: https://bun.com or https://nodejs.org" >&2; exit 1; fi
