# make demo   builds, and shows the main job in a scratch repository
# make check  what can be told without running anything: formatting, vets, linters, other systems
# make test   the tests; with check, everything that must hold before a change lands
# make test-long   the same at length
# make test-agents   with Claude Code, Codex and Gemini CLI from npm
# make        builds bin/vizier, bin/vizier-top, bin/vizier-mcp, bin/vizier-metrics, bin/vizier-otel, bin/vizier-web, and bin/vizier-resident where libgit2 is to be had

GO       ?= go
LIBGIT2  := $(shell pkg-config --exists 'libgit2 >= 1.5' 'libgit2 < 1.6' 2>/dev/null && command -v gcc >/dev/null 2>&1 && echo yes)
ifeq ($(LIBGIT2),yes)
PROGRAMS := bin/vizier bin/vizier-top bin/vizier-mcp bin/vizier-metrics bin/vizier-otel bin/vizier-web bin/vizier-resident
else
PROGRAMS := bin/vizier bin/vizier-top bin/vizier-mcp bin/vizier-metrics bin/vizier-otel bin/vizier-web
endif
SLIM     := -trimpath -ldflags '-s -w'
PREFIX   ?= /usr/local
# What lands is judged by draws that can be repeated; make prop draws anew.
SEED     ?= 20261121
# Checks per property; nightly runs take more: make prop N=200000
N        ?= 20000
T        ?= 30s
TIMEOUT  := 20m
# A program with the race detector sleeps a second at its exit, and tests start hundreds.
export GORACE := atexit_sleep_ms=0

.PHONY: build page setup tools demo test test-long test-portable cluster check vet raced with-libgit2 operations unraced lint platforms prop fuzz mutate bench golden golden-scripts nocgo fmt install clean test-agents

build:
	CGO_ENABLED=0 $(GO) build $(SLIM) -o bin/vizier ./cmd/vizier
	CGO_ENABLED=0 $(GO) build $(SLIM) -o bin/vizier-top ./cmd/vizier-top
	CGO_ENABLED=0 $(GO) build $(SLIM) -o bin/vizier-mcp ./cmd/vizier-mcp
	CGO_ENABLED=0 $(GO) build $(SLIM) -o bin/vizier-metrics ./cmd/vizier-metrics
	CGO_ENABLED=0 $(GO) build $(SLIM) -o bin/vizier-otel ./cmd/vizier-otel
	@$(MAKE) --no-print-directory page
	CGO_ENABLED=0 $(GO) build $(SLIM) -o bin/vizier-web ./cmd/vizier-web
ifeq ($(LIBGIT2),yes)
	CGO_ENABLED=1 $(GO) build $(SLIM) -tags libgit2 -o bin/vizier-resident ./cmd/vizier
else
	rm -f bin/vizier-resident
endif

# The kernel for browsers, which vizier-web carries, and what Go has beside it. Where these
# are not, all builds and is tested; only the program says that they are missing.
PAGE := cmd/vizier-web/static
page:
	GOOS=js GOARCH=wasm CGO_ENABLED=0 $(GO) build $(SLIM) -o $(PAGE)/kernel.wasm ./cmd/vizier-web/wasm
	gzip -9 -n -f $(PAGE)/kernel.wasm
	cp "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" $(PAGE)/wasm_exec.js

setup:
	@sh scripts/setup.sh

tools:
	@sh scripts/setup.sh chromium promtool bindfs sshfs lsof

# The choice of git engine is made when make reads this file, so what setup
# installs counts for the make that it starts.
demo: setup
	@$(MAKE) --no-print-directory build
	@sh scripts/demo.sh bin/vizier

# The parts wait for other things, and so they go side by side. Tests make many small
# files, which takes half the time in memory. Garbage is collected less often, which takes
# a fifth off what the tests of the store compute. The programs that tests build are linked
# in half the time without tables for debuggers. check vets.
MEMORY   := $(or $(TMPDIR),$(shell sh scripts/memory.sh),/tmp)
test test-long: export GOGC := 400
test test-long: export GOFLAGS := $(shell $(GO) env GOFLAGS) -ldflags=-w
test: export TMPDIR := $(MEMORY)
test: tools cluster
	@$(MAKE) --no-print-directory -j 4 with-libgit2 operations raced unraced

# The same at length, the program that scripts run with the race detector too: longer
# tortures, the whole suite of clusters. The tortures and the tests of the store have their
# files on the disk. And then once, in memory, the way that other systems take, on this one.
test-long: export VIZIER_LONG := 1
test-long: tools cluster
	@$(MAKE) --no-print-directory platforms PLATFORMS=darwin/amd64
	@$(MAKE) --no-print-directory -j 4 TIMEOUT=60m with-libgit2 operations raced unraced
	@env -u VIZIER_LONG $(MAKE) --no-print-directory test-portable

# By the environment, so that the programs that tests build have the tag as well. What the tag
# does not change is built and tested once, since all else is as in unraced.
test-portable: export TMPDIR := $(MEMORY)
test-portable:
	CGO_ENABLED=0 RAPID_SEED=$(SEED) GOFLAGS='$(shell $(GO) env GOFLAGS) -tags=portable' $(GO) test -vet=off -p 3 -timeout 60m ./...

# The real agents from npm, of the versions that this is made for, and then the
# newest ones, which may fail.
test-agents:
	@GO=$(GO) scripts/test-agents.sh
	@GO=$(GO) scripts/test-agents.sh latest

cluster:
	@scripts/slurm-cluster.sh install || echo 'setup: no Slurm, so tests of clusters are skipped'

# The race detector is for packages whose goroutines share much: the rest is pure, or
# starts programs that it does not see into, and takes a third of the time without.
# app/op and adapters/git start no goroutine. Half of adapters/fs, the browser and most of
# the simulation's draws say of themselves that they gain nothing, and run without.
RACED := ./cmd/vizier ./cmd/vizier-web/... ./app ./app/answer ./app/enqueue ./app/memstore ./adapters/... ./proptest/sim

raced with-libgit2 operations: export TMPDIR := $(MEMORY)

raced:
	RAPID_SEED=$(SEED) nice -n 3 $(GO) test -vet=off -race -p 3 -timeout $(TIMEOUT) $$($(GO) list $(RACED) | grep -vxF "$$($(GO) list ./adapters/git)")

# With libgit2 where it is to be had. It and operations start git programs one after the
# other, and would end last if the rest were not nice to them.
with-libgit2:
	$(GO) test -vet=off -timeout $(TIMEOUT) $(if $(LIBGIT2),-tags libgit2) ./adapters/git/

operations:
	CGO_ENABLED=0 RAPID_SEED=$(SEED) $(GO) test -vet=off -timeout $(TIMEOUT) ./app/op

# Without cgo, as check builds it: nothing is compiled twice. What waits longest comes first.
unraced:
	CGO_ENABLED=0 RAPID_SEED=$(SEED) nice -n 3 $(GO) test -vet=off -p 3 -timeout $(TIMEOUT) ./proptest/torture ./proptest/cluster ./adapters/fs ./cmd/vizier-web ./proptest/sim $$($(GO) list ./... | grep -vxF "$$($(GO) list ./app/op $(RACED))")

check: setup
	@$(MAKE) --no-print-directory fmt nocgo platforms lint vet

vet:
	CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 $(GO) vet -tags portable ./...
ifeq ($(LIBGIT2),yes)
	$(GO) vet -tags libgit2 ./adapters/git/ ./cmd/vizier/
endif

fmt:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt -w on these'; exit 1; }

nocgo:
	CGO_ENABLED=0 $(GO) build ./...

# What is not run here is at least compiled and vetted, with its tests. Nobody runs
# what comes out: it is not optimised.
PLATFORMS := darwin/arm64 freebsd/amd64 linux/arm64
VET       := vet -gcflags='-N -l -dwarf=false'
platforms:
	@for p in $(PLATFORMS); do CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) $(VET) ./... || { echo "vet for $$p failed"; exit 1; }; done
	@for p in js wasip1; do GOOS=$$p GOARCH=wasm $(GO) $(VET) ./kernel/... ./proptest/vector ./cmd/vizier-web/page || { echo "vet for $$p failed"; exit 1; }; done

# By the version that tools/go.mod says. It remembers what it has judged, so that
# only the first time takes long.
lint:
	CGO_ENABLED=0 $(GO) tool -modfile=tools/go.mod golangci-lint run ./...

prop:
	RAPID_CHECKS=$(N) $(GO) test -count=1 -timeout 0 ./proptest ./proptest/sim

fuzz:
	@for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
		for t in $$(grep -hoE '^func Fuzz[A-Za-z0-9]*' $$f/*_test.go | cut -d' ' -f2); do \
			echo "$$f $$t"; $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzztime $(T) $$f || exit 1; done; done

# Which small breakages of the program no test notices: make mutate N=30 SEED=7
mutate: N = 100
mutate:
	$(GO) run ./proptest/mutate -n $(N) -seed $(SEED)

bench: build
	$(GO) test -run '^$$' -bench . -benchmem -timeout 0 ./kernel/... ./proptest/... ./adapters/... ./app/... ./cmd/vizier

# What is generated from the code; those of whole commands are make golden-scripts.
GOLDEN = ^(TestScenarios|TestFilesAreTheCases|TestVectorsConformToTheSchema|TestHelpIsGolden|TestHelpTopics|TestCompletions|TestManPages|TestDocsPage|TestKernelAPIIsListed|TestStateMachine|TestRecordedStreams)$$
golden:
	$(GO) test ./kernel ./proptest/vector ./cmd/vizier ./adapters/fs/config ./adapters/proc/agent . -run '$(GOLDEN)' -update
	git diff --stat

golden-scripts:
	$(GO) test ./cmd/vizier -run '^TestScripts$$' -update
	$(GO) test . -run '^TestExamplesRun$$' -update
	git diff --stat

MANDIR   ?= $(PREFIX)/share/man/man1
BASHDIR  ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR   ?= $(PREFIX)/share/zsh/site-functions
FISHDIR  ?= $(PREFIX)/share/fish/vendor_completions.d

# Vizier looks for shims of agents in share/vizier/agents: docs/user/agents.md. Those of
# Claude Code, Codex and Gemini CLI are part of the program.
install: build
	install -d $(addprefix $(DESTDIR),$(PREFIX)/bin $(MANDIR) $(BASHDIR) $(ZSHDIR) $(FISHDIR) $(PREFIX)/share/vizier/agents $(PREFIX)/share/vizier/hooks)
	install -m 755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin/
	install -m 755 examples/hooks/*.sh $(DESTDIR)$(PREFIX)/share/vizier/hooks/
	install -m 644 docs/cli/*.1 $(DESTDIR)$(MANDIR)/
	install -m 644 cmd/vizier/completions/vizier.bash $(DESTDIR)$(BASHDIR)/vizier
	install -m 644 cmd/vizier/completions/vizier.zsh $(DESTDIR)$(ZSHDIR)/_vizier
	install -m 644 cmd/vizier/completions/vizier.fish $(DESTDIR)$(FISHDIR)/vizier.fish

clean:
	rm -rf bin
