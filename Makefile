# make demo   builds, and shows the main job in a scratch repository
# make test   everything that must hold before a change lands
# make        builds bin/vizier and bin/vizier-runner

GO       ?= go
LIBGIT2  := $(shell pkg-config --exists 'libgit2 >= 1.5' 'libgit2 < 1.6' 2>/dev/null && command -v gcc >/dev/null 2>&1 && echo yes)
ifeq ($(LIBGIT2),yes)
TAGS     := -tags libgit2
CGO      := 1
else
CGO      := 0
endif
PREFIX   ?= /usr/local
# What lands is judged by draws that can be repeated; make prop draws anew.
SEED     ?= 20261121
# Checks per property; nightly runs take more: make prop N=200000
N        ?= 20000
T        ?= 30s

.PHONY: build setup demo test test-agents check prop fuzz bench golden nocgo fmt install clean

build:
	CGO_ENABLED=$(CGO) $(GO) build $(TAGS) -o bin/vizier ./cmd/vizier
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/vizier-runner ./cmd/vizier

setup:
	@sh scripts/setup.sh

# The choice of git engine is made when make reads this file, so what setup
# installs counts for the make that it starts.
demo: setup
	@$(MAKE) --no-print-directory build
	@sh scripts/demo.sh bin/vizier

test: setup
	@scripts/slurm-cluster.sh install || echo 'setup: no Slurm, so tests of clusters are skipped'
	@$(MAKE) --no-print-directory check

# The real agents from npm, of the versions that this is made for, and then the
# newest ones, which may fail.
test-agents:
	@GO=$(GO) scripts/test-agents.sh
	@GO=$(GO) scripts/test-agents.sh latest

# One package at a time: many of them start processes and look at all of them.
check: fmt nocgo
	$(GO) vet ./...
	RAPID_SEED=$(SEED) $(GO) test -race -p 1 -parallel 4 -timeout 40m ./...
ifeq ($(LIBGIT2),yes)
	$(GO) vet -tags libgit2 ./adapters/git/ ./cmd/vizier/
	$(GO) test -tags libgit2 ./adapters/git/
endif

fmt:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run gofmt -w on these'; exit 1; }

nocgo:
	CGO_ENABLED=0 $(GO) build ./...

prop:
	RAPID_CHECKS=$(N) $(GO) test -count=1 -timeout 0 ./proptest ./proptest/sim

fuzz:
	@for f in $$(grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u); do \
		for t in $$(grep -hoE '^func Fuzz[A-Za-z0-9]*' $$f/*_test.go | cut -d' ' -f2); do \
			echo "$$f $$t"; $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzztime $(T) $$f || exit 1; done; done

bench: build
	$(GO) test -run '^$$' -bench . -benchmem ./kernel/... ./proptest/... ./adapters/... ./app/...

golden:
	$(GO) test ./kernel ./cmd/vizier ./adapters/fs/config ./adapters/proc/agent . -update
	git diff --stat

install: build
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 755 bin/vizier bin/vizier-runner $(DESTDIR)$(PREFIX)/bin/

clean:
	rm -rf bin
