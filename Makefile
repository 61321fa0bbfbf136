# The targets of topside. `make` alone lists them.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X topside/internal/cli.version=$(VERSION)
STATIC  := CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)'

.PHONY: help build cross test deps lint unit race e2e bench fuzz soak generate clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## one static binary for this machine: bin/topside
	$(STATIC) -o bin/topside ./cmd/topside

cross: ## the same for the other platforms: dist/
	GOOS=linux GOARCH=amd64 $(STATIC) -o dist/topside-linux-amd64 ./cmd/topside
	GOOS=linux GOARCH=arm64 $(STATIC) -o dist/topside-linux-arm64 ./cmd/topside
	GOOS=darwin GOARCH=arm64 $(STATIC) -o dist/topside-darwin-arm64 ./cmd/topside
	GOOS=windows GOARCH=amd64 $(STATIC) -o dist/topside-windows-amd64.exe ./cmd/topside

test: deps lint cross race ## everything that must pass; installs what the tests need (Debian, root)

deps: ## install what the tests need from Debian and npm
	test/install

lint: ## formatting, vet and staticcheck
	@unformatted=$$(gofmt -l cmd internal test); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

unit: ## the quick tests, without the race detector
	$(GO) test ./...

# Whoever runs the tests may ignore signals (nohup does); programs under test
# must not inherit that.
SIGNALS := env --default-signal

# One package after the other: many measure figures, start daemons or wait for
# real processes, and would disturb each other.
race: ## every test, under the race detector
	$(GO) build -race ./...
	$(SIGNALS) $(GO) test -race -count=1 -timeout 20m -p 1 ./...
	$(SIGNALS) $(GO) test -count=1 -run TestRunLeavesNothing -v ./internal/tui # not built under the race detector

bench: ## the benchmarks, each beside the peer that it is measured against
	test/bench

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME
	test/fuzz $(FUZZTIME)

SOAK ?= 10m
soak: ## sessions and hosts under load and random kills for SOAK (a minute of it is in "make test")
	TOPSIDE_SOAK=$(SOAK) $(GO) test -count=1 -timeout 0 -p 1 -run TestSoak -v ./test/compute-united ./test/fleet

generate: ## the generated documents and snapshots
	$(GO) generate ./...

clean: ## what was built
	rm -rf bin dist
