# proxylist: everything a developer runs. `make` lists it.
.DEFAULT_GOAL := help
.PHONY: help run dev test bench torture soak check fmt build release clean screenshots

BUN_VERSION := $(shell sed -n 's/.*"packageManager": "bun@\([0-9.]*\)".*/\1/p' package.json)
LOCAL_BUN := .bun/$(BUN_VERSION)/node_modules/.bin/bun
# The pinned Bun: the one on PATH when it is that very version, else one installed in .bun.
BUN := $(shell [ "$$(bun --version 2>/dev/null)" = "$(BUN_VERSION)" ] && command -v bun || echo $(LOCAL_BUN))
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
COMMITTED := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
READY := node_modules/.ready
BINARY ?= dist/proxylist
# Another machine to build for, as Bun names it: linux-arm64, darwin-x64. What is built for one is not run here.
TARGET ?=
WORKERS := $(shell find src -name "*.worker.ts" | sort)
# These ask a service that is in process in the first run. They run again with the binary as the service: the cases
# of the API with one path of each route, its documents, and secrets.
SERVICE_TESTS := $(patsubst %,test/%.test.ts, api/scenarios http/documents http/secrets)
# Files run in four processes, because many tests wait for a browser or a server. A busy machine is slow, not wrong:
# the longest test takes ten seconds on a quiet one, and five minutes are for those that hang.
TEST_OPTIONS := --parallel=4 --timeout=300000
WITH_BINARY := PROXYLIST_BINARY="$(CURDIR)/$(BINARY)" $(BUN)
SOURCES := $(shell find src -type f) $(wildcard data/manual/*.md) data/sample.ndjson $(wildcard data/*.service) \
  package.json bun.lock tsconfig.json Makefile

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

run: $(READY) ## serve the sample list on 127.0.0.1:8080
	@$(BUN) src/main.ts serve --sample --data .run

dev: $(READY) ## the same; restarts when a source file changes
	@$(BUN) test/lab/dev.ts

test: check build ## everything: format, lint, types, tests in process and of the binary
	PROXYLIST_TEST_SERVICES=in-process $(WITH_BINARY) test $(TEST_OPTIONS)
	$(WITH_BINARY) test $(TEST_OPTIONS) $(SERVICE_TESTS)

bench: $(BINARY) ## compare with baselines and print a table (ROWS=1000000, ONLY=…, BEFORE=…, DATABASE=…)
	@$(BUN) test/lab/bench/bench.ts

torture: $(BINARY) ## the long tests: fault, attack and load (ONLY=…, SEED=…, ROUNDS=…, SECONDS=…, PG_BIN=…)
	@$(BUN) test/lab/torture/torture.ts

soak: $(BINARY) ## a steady load during imports: nothing may grow (SECONDS=300, RATE=…, SEED=…)
	@$(BUN) test/lab/torture/soak/soak.ts

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

release: $(READY) ## archives, packages, sums and bill of materials of a tagged commit (TARGETS=linux-x64,…)
	@TZ=UTC $(BUN) test/lab/release/release.ts

# Identifiers keep their names: Elysia looks at class names when it decides what is an error.
# Without file-type, which it loads for uploads only, the binary lacks eight packages it has no use for.
$(BINARY): $(READY) $(SOURCES)
	$(BUN) build --compile --bytecode --format=esm --sourcemap \
	  --minify-whitespace --minify-syntax \
	  --define 'process.env.NODE_ENV="production"' --define 'BUILD_COMMIT="$(COMMIT)"' --define 'BUILD_SECONDS="$(COMMITTED)"' \
	  --no-compile-autoload-dotenv --no-compile-autoload-bunfig \
	  --external file-type \
	  --compile-exec-argv="--max-http-header-size=8192" \
	  $(if $(TARGET),--target=bun-$(TARGET)) src/main.ts $(WORKERS) --outfile $@
	$(if $(TARGET),,@env -i $@ version)

clean: ## remove what the other targets made
	rm -rf dist .run .bun node_modules

$(READY): $(BUN) package.json bun.lock
	$(BUN) install --frozen-lockfile
	@touch $@

$(LOCAL_BUN):
	@echo "installing Bun $(BUN_VERSION) in .bun"
	@mkdir -p .bun/$(BUN_VERSION)
	@if command -v npm >/dev/null; then \
	  npm install --prefix .bun/$(BUN_VERSION) --no-audit --no-fund --loglevel=error bun@$(BUN_VERSION); \
	elif command -v bun >/dev/null; then \
	  cd .bun/$(BUN_VERSION) && echo '{}' > package.json && bun add --exact --trust bun@$(BUN_VERSION); \
	else echo "npm or Bun is needed: https://bun.com or https://nodejs.org" >&2; exit 1; fi
