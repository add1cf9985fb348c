# Forage: everything a developer runs. "make help" lists it.
export GOTOOLCHAIN := auto
export GOEXPERIMENT := simd

BIN     := bin
PACKS   := algorithms retrievers rewards
# The version is part of the program, and the program's digest of what a run depends on: it changes with releases only.
VERSION ?= 0.1.0
# Neither the program nor its tests need a C compiler, except for the race detector and the XLA backend.
GO      := CGO_ENABLED=0 go
LDFLAGS := -s -w -X main.version=$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help build xla demo test race lint bench proto docs notices fmt clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/forage and its plugin packs
	@mkdir -p $(BIN)/plugins
	$(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o $(BIN)/forage ./core/cmd/forage
	@for pack in $(PACKS); do \
		echo "$(GO) build -o $(BIN)/plugins/forage-$$pack ./plugins/$$pack"; \
		$(GO) build -trimpath -buildvcs=false -ldflags '-s -w' -o $(BIN)/plugins/forage-$$pack ./plugins/$$pack || exit 1; \
	done
	@$(BIN)/forage plugin bundle $(BIN)/plugins

xla: build ## build bin/forage with the XLA backend (needs a C compiler)
	CGO_ENABLED=1 go build -tags xla -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/forage ./core/cmd/forage

demo: build ## train two methods on the embedded world and compare them (about 5 minutes on 2 cores)
	$(BIN)/forage run experiments/minihop --ablation demo

test: build ## run all tests
	$(GO) test ./...

# Left out: core/policy and core/study, whose tests compute with gomlx: its Go backend does not pass the pointer checks
# that come with the detector ("checkptr: pointer arithmetic result points to invalid allocation").
race: ## run the tests of the concurrent packages under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -short ./core/host/... ./core/internal/... ./core/sdk/... ./core/rollout/... ./core/record/... ./core/retrieval/... \
		./core/endpoint/... ./core/generate/... ./core/metrics/... ./core/run

lint: ## check formatting and vet
	@unformatted=$$(gofmt -l core plugins); if [ -n "$$unformatted" ]; then echo "not formatted:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed; only gofmt and go vet ran"; fi

bench: build ## measure speed against named peers (PyTorch, hnswlib where they are installed), as ratios in one run
	GOMAXPROCS=1 $(GO) test ./core/policy -run '^$$' -bench . -benchtime 4x
	$(GO) test ./core/plan ./core/host ./core/study -run '^$$' -bench . -benchtime 3x
	core/retrieval/bench.sh

proto: ## generate the wire code again
	$(GO) run ./core/internal/wire/gen

docs: build ## generate experiments/REFERENCE.md, the reference of blocks and plugins
	$(BIN)/forage docs -o experiments/REFERENCE.md

notices: ## generate core/THIRD_PARTY_NOTICES.md, the notices of third parties
	$(GO) run ./core/internal/notices

fmt: build ## format Go and HCL files
	gofmt -w core plugins
	$(BIN)/forage fmt experiments

clean: ## remove what was built
	rm -rf $(BIN)
