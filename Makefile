# What one does with this repository. `make` lists it.

SHELL   := bash
TOOL    := go tool -modfile=tools/go.mod
PKG     ?= ./...
FUZZTIME ?= 30s
BENCH   ?= .
COUNT   ?= 1
TARGET  ?= FuzzDecoder
MINUTES ?= 30
QUIET   ?= 5
PREFIX  ?= /usr/local
DESTDIR ?=
HISTORIES ?= 20000
FUZZRUNS ?= 20000
CACHE   ?= bin/fuzz/cache
BASE    ?= HEAD^

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help build test full check test-names forget needs format vet lint tidy-check race race-destination fuzz fuzz-long corpus documents kill powercut readers ring patches cover bench bench-documents bench-source bench-destination bench-catalog bench-oai bench-pairs oai-ring vuln docs faults quirks foreign foreign-page foreign-fuzz histories arrows rooms rules switches lint-mutants evidence-mutants screenshots fmt clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "variables: PKG=$(PKG) FUZZTIME=$(FUZZTIME) BENCH=$(BENCH) COUNT=$(COUNT)"

build: ## build the binary into bin/
	go build -trimpath -o bin/instep ./cmd/instep

install: build ## put the program, its man pages and completions below PREFIX (default /usr/local; DESTDIR goes before it)
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' tools/install.sh

uninstall: ## remove what install put there
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' tools/install.sh remove

test: needs ## the tests; installs what they need, lists what was skipped
	@tools/test.sh bin/test.log -short -timeout 60m $(PKG)

full: needs ## the tests at full length: models with all their rounds, tables of bench with small sets (half an hour)
	@tools/test.sh bin/full.log -timeout 60m $(PKG)

check: forget format vet lint tidy-check ## format, vet for three systems, linters, go.mod and go.sum
	@tools/skipped.sh show

test-names: ## compare the names of the tests of the last `make test` with those of the commit BASE
	@tools/testnames.sh "$(BASE)"

forget:
	@tools/skipped.sh clear

needs:
	@tools/needs.sh

format:
	@echo "gofmt"
	@bad=$$(gofmt -l .); \
	if [ -n "$$bad" ]; then echo "not gofmt-ed (make fmt does it):"; echo "$$bad"; exit 1; fi

vet:
	go vet ./...
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...

lint: ## golangci-lint with the rules of .golangci.yml
	@tools/lint.sh

tidy-check: ## go.mod and go.sum say what the code needs
	@tools/tidy.sh

race: needs ## all tests with the race detector
	@tools/test.sh bin/race.log -race -timeout 120m $(PKG)

race-destination: needs ## the tests of the Destination with the race detector (up to half an hour)
	@tools/test.sh bin/race.log -race -timeout 60m ./destination

fuzz: ## every fuzz target for FUZZTIME
	@tools/fuzz.sh "$(FUZZTIME)" $(PKG)

fuzz-long: ## TARGET of resourcesync for MINUTES of processor, and until no new code is reached for QUIET
	@tools/fuzz-long.sh "$(TARGET)" ./resourcesync "$(MINUTES)" "$(QUIET)"

corpus: ## merge what fuzzing found (CACHE) into resourcesync/testdata/corpus
	go test ./resourcesync -count=1 -v -run '^TestCorpora$$' -corpus "$(abspath $(CACHE))"

documents: ## 100,000 generated documents written and read again, and 100,000 damaged ones compared with other parsers
	INSTEP_DOCUMENTS=100000 go test ./resourcesync -count=1 -v -timeout 60m -run '^(TestGeneratedDocumentsSurviveTheRoundTrip|TestAgreesWithOtherParsers)$$'

kill: ## the long tests that kill the binary at random moments
	@tools/long.sh '^TestKill'

powercut: ## the long test that cuts the power of the mirror's disk (Linux, root)
	@tools/long.sh '^TestPowerCut'

readers: ## the long test of readers that walk the tree while 2,000 publications run and 200 of them are killed
	@tools/long.sh '^TestReaders'

ring: ## the long tests of the whole ring: publish, serve, sync, audit
	@tools/long.sh '^TestRing'

cover: ## coverage of all packages by all tests, as bin/cover.html
	@mkdir -p bin
	go test -coverpkg=./... -coverprofile=bin/cover.out $(PKG)
	go tool cover -html=bin/cover.out -o bin/cover.html
	go tool cover -func=bin/cover.out | tail -n 1

bench: ## benchmarks BENCH, compared with those of the last run
	@mkdir -p bin
	@if [ -f bin/bench.txt ]; then mv bin/bench.txt bin/bench-before.txt; fi
	set -o pipefail; go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(PKG) | tee bin/bench.txt
	@if [ -f bin/bench-before.txt ]; then $(TOOL) benchstat bin/bench-before.txt bin/bench.txt; fi

bench-documents: ## the table of reading and writing documents, beside other parsers and limits (two minutes, 400 MB)
	@mkdir -p bin
	@go test ./bench -count=1 -timeout 30m -run '^TestDocuments$$' -args -table "$(abspath bin/documents.md)" >bin/documents.log || { cat bin/documents.log; exit 1; }
	@cat bin/documents.md

bench-source: ## the table of the Source: publishing and packing, beside what else there is (ten minutes, 4 GB)
	@mkdir -p bin
	@go test ./bench -count=1 -timeout 60m -run '^TestSource$$' -args -source "$(abspath bin/source.md)" >bin/source.log || { cat bin/source.log; exit 1; }
	@cat bin/source.md

bench-destination: ## the table of the Destination: baselines, increments and plans, beside what else there is (half an hour, 15 GB)
	@mkdir -p bin
	@go test ./bench -count=1 -timeout 120m -run '^TestDestination$$' -args -destination "$(abspath bin/destination.md)" >bin/destination.log || { cat bin/destination.log; exit 1; }
	@cat bin/destination.md

bench-oai: ## the table of OAI-PMH: a million records harvested, 100,000 served, beside programs in Perl (ten minutes, 6 GB)
	@mkdir -p bin
	@go test ./bench -count=1 -timeout 60m -run '^TestOAI$$' -args -oai "$(abspath bin/oai.md)" >bin/oai.log || { cat bin/oai.log; exit 1; }
	@cat bin/oai.md

patches: ## the long tests of patches: 500 random edits, each patch applied by another program too, and a million chains of patches with faults (ten minutes)
	INSTEP_LONG=1 go test ./transfer -count=1 -v -timeout 30m -run '^TestCat_PAT_01$$'
	@tools/long.sh '^TestPatches'

oai-ring: ## the long tests of OAI-PMH: 100,000 records with changes and deletions into a mirror, and 20 kills
	@tools/long.sh '^Test(KilledHarvest|OAIRing)'

RESOURCES ?= 20000 100000 1000000
SHAPE ?= .
bench-catalog: ## what the catalog costs for RESOURCES resources whose URIs have SHAPE, and their migration (minutes; an hour for 10000000)
	@for n in $(RESOURCES); do echo "$$n resources"; for b in 'BaselineOfALargeSet$$/$(SHAPE)' 'Migration$$'; do \
		INSTEP_RESOURCES=$$n go test ./internal/catalog -timeout 0 -run '^$$' -benchtime 1x -bench "^Benchmark$$b" | grep '^Benchmark'; done; done

bench-pairs: ## the rows of the Destination beside those of the commit BASE, in turns (half an hour, 30 GB)
	@mkdir -p bin
	@tools/bench-pairs.sh "$(BASE)" "$(abspath bin/pairs.md)" $(MEMBERS) >bin/pairs.log || { cat bin/pairs.log; exit 1; }
	@cat bin/pairs.md

vuln: ## known vulnerabilities in what the binary links (needs the network)
	$(TOOL) govulncheck ./...

docs: faults quirks foreign-page arrows rooms rules switches ## write anew everything that is generated
	go test ./cmd/instep -count=1 -run '^(TestManPages|TestLintOfABrokenSource)$$' -update

faults: ## write docs/faults.md anew from the tests
	go test ./internal/repo -count=1 -run '^TestFaultsTable$$' -update

quirks: ## write docs/quirks.md anew from the tests
	go test ./internal/repo -count=1 -run '^TestQuirksTable$$' -update

arrows: ## write the depguard rules anew from internal/repo/arrows.txt
	go test ./internal/repo -count=1 -run '^TestArrowsAndLinterAgree$$' -update

rooms: ## write docs/rooms.md anew: each package, its lines, why it exists, what it imports
	go test ./internal/repo -count=1 -run '^TestRoomsTable$$' -update

rules: ## write docs/rules.md anew from the rules and their tests
	go test ./lint -count=1 -run '^TestRulesTable$$' -update

switches: ## write the table in docs/simulate.md anew from the switches
	go test ./internal/sim -count=1 -run '^TestSwitchesTable$$' -update

foreign: ## run the programs of others that run here against ours, both ways, and write the tables of docs/foreign.md (FOREIGN=DIR has their checkouts, else they are cloned; two minutes)
	@tools/foreign.sh

foreign-page: ## write docs/foreign.md anew without running a program of others: Sources in their shapes, and the rows of the last real run
	go test ./cmd/instep -count=1 -run '^TestForeignSources$$' -update

foreign-fuzz: ## FUZZRUNS Sources that others wrote, each with one thing done to one document, held against what the documents name (a quarter of an hour)
	INSTEP_FOREIGN_FUZZ=$(FUZZRUNS) go test ./cmd/instep -count=1 -v -timeout 120m -run '^TestForeignFuzz$$'

histories: ## HISTORIES random histories of a Source and its mirror held against what the Source had and said, and a fifth as many with faults of the network (an hour)
	INSTEP_HISTORIES=$(HISTORIES) go test ./internal/sim -count=1 -v -timeout 240m -run '^TestAnyHistoryKeepsThePromise$$'
	INSTEP_HISTORIES=$$(($(HISTORIES) / 5)) go test ./internal/sim -count=1 -v -parallel 6 -timeout 120m -run '^TestAnyHistoryEndsInStep$$' | grep -v -e '--- PASS' -e '=== '

evidence-mutants: ## take away one branch of the decision on evidence after the other; a test has to show each (half a minute)
	@go test ./evidence -count=1 -v -run '^TestMutants$$' | grep -E 'killed|: Test|can be taken|^(FAIL|ok)' | sed 's/^ *[a-z_]*\.go:[0-9]*: //'

lint-mutants: ## take away one check of lint after the other; an example has to show each
	@go test ./lint -count=1 -v -run '^TestMutants$$' | grep -E 'mutants:|can be taken|^(FAIL|ok)'

screenshots: build ## take the pictures in docs/pictures anew with a headless Chromium (a minute)
	@tools/screenshots.sh docs/pictures

fmt: ## format all Go files
	$(TOOL) gofumpt -w .

clean: ## remove what was built
	rm -rf bin dist instep
