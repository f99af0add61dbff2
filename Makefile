# libherd: the library, its header, its tests and its installation. `make help` lists the targets.
#
# Cargo compiles the Rust sources; everything a C program or a packager sees is made here, in build/.

# What a packager may override: make PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu DESTDIR=... install
PREFIX     ?= /usr/local
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
DESTDIR    ?=
CFLAGS     ?= -O2 -g
CXXFLAGS   ?= -O2 -g
CARGO      ?= cargo
OBJCOPY    ?= objcopy
PKG_CONFIG ?= pkg-config
INSTALL    ?= install
BUILD       = build
T           =

# The version has one home, Cargo.toml, and the ABI number has one, build.rs.
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
ABI     := $(shell sed -n 's/^const ABI: u32 = \([0-9]*\);/\1/p' build.rs)
REAL    := libherd.so.$(VERSION)
SONAME  := libherd.so.$(ABI)

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
RELEASE    := $(TARGET_DIR)/$(CARGO_BUILD_TARGET:%=%/)release
SOURCES    := Cargo.toml Cargo.lock build.rs $(shell find src -name '*.rs')
LIBS       := $(BUILD)/$(REAL) $(BUILD)/libherd.a $(BUILD)/native-static-libs

.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: all lib examples demo herdtop picture header header-check man reference \
	test test-tools fuzz fuzz-build check-slow noise coverage abi-golden abi-check \
	bench bench-quick bench-promises bench-counting bench-build bench-peers bench-tools \
	paths-check install install-lib install-herdtop install-man uninstall clean help FORCE

all: lib examples herdtop ## build the libraries, the examples and herdtop into build/
lib: $(LIBS)

# --- The libraries ---------------------------------------------------------------------------

# `cargo rustc` rather than `cargo build`: without the rlib among the crate types, cargo applies
# fat LTO, and rustc tells which system libraries the static library needs. The unwinder is the compiler
# driver's to add, as it does: libgcc_s by default, libgcc_eh with -static, where there is no libgcc_s.
$(BUILD)/native-static-libs: $(SOURCES)
	@mkdir -p $(BUILD)
	$(CARGO) rustc --release --locked --lib --target-dir $(TARGET_DIR) --crate-type staticlib \
		-- --print native-static-libs=$(RELEASE)/native-static-libs
	sed 's/-lgcc_s *//' $(RELEASE)/native-static-libs >$@

# The calls that C programs may use.
$(BUILD)/exports: libherd.map
	@mkdir -p $(BUILD)
	sed -n 's/^ *\(herd_[a-z0-9_]*\);$$/\1/p' $< >$@

# Linked here from Rust's archive, for the symbols' versions: a cdylib is linked with a version script of
# rustc's own, beside which GNU ld takes no other. Undefined (-u) so that they are taken from the archive.
# nodelete: Rust's standard library may leave a destructor to be called when a thread that called us ends
# (pthread_key_create(3), in std::thread::current), which after dlclose(3) is a SIGSEGV; and the page of
# src/sys/fork.rs, which is never unmapped, would be left behind each time.
$(BUILD)/$(REAL): $(BUILD)/native-static-libs $(BUILD)/exports
	$(CC) -shared -o $@ -Wl,-soname,$(SONAME) -Wl,--version-script=libherd.map \
		-Wl,--no-undefined-version -Wl,--gc-sections -Wl,-z,defs -Wl,-z,relro -Wl,-z,now -Wl,-z,nodelete \
		$$(sed 's/^/-Wl,-u,/' $(BUILD)/exports) $(RELEASE)/libherd.a $(LDFLAGS) -Wl,--as-needed \
		$$(cat $(BUILD)/native-static-libs)
	ln -sf $(REAL) $(BUILD)/$(SONAME)
	ln -sf $(SONAME) $(BUILD)/libherd.so

# Rust's own archive shows the standard library's symbols to the program: two Rust libraries in one
# program would clash. So link what our exports need into one object and hide everything else in it.
# Section groups are dissolved (--force-group-allocation): the linker would merge ours with an equally
# named one of the other library, and drop what our local symbols refer to.
$(BUILD)/libherd.a: $(BUILD)/exports $(BUILD)/native-static-libs
	$(LD) -r --gc-sections --force-group-allocation $$(sed 's/^/-u /' $<) -o $(BUILD)/herd.o $(RELEASE)/libherd.a
	$(OBJCOPY) --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd \
		--keep-global-symbols=$< $(BUILD)/herd.o
	rm -f $@
	$(AR) rcs $@ $(BUILD)/herd.o

# --- The examples ----------------------------------------------------------------------------

# Examples that need another library, as example:its header:how to link it. One whose library is not
# installed is left out, and `make` says so. libev has no .pc file, so its header is what is looked for.
HOSTS         := host_libev:ev.h:-lev host_libevent:event2/event.h:-levent_core host_libuv:uv.h:-luv
host_part      = $(word $(2),$(subst :, ,$(1)))
has_header     = $(shell printf '\043include <%s>\n' '$(1)' | $(CC) $(CPPFLAGS) $(CFLAGS) -E -x c - >/dev/null 2>&1 && echo yes)
HOSTS_MISSING := $(foreach host,$(HOSTS),$(if $(call has_header,$(call host_part,$(host),2)),,$(host)))
EXAMPLES_LEFT_OUT := $(foreach host,$(HOSTS_MISSING),c_examples/$(call host_part,$(host),1).c)

EXAMPLES := $(patsubst c_examples/%,$(BUILD)/examples/%,$(basename \
	$(filter-out $(EXAMPLES_LEFT_OUT),$(wildcard c_examples/*.c c_examples/*.cpp))))
EXAMPLE_FLAGS := -Wall -Wextra -Wpedantic -Werror -pthread -Iinclude
EXAMPLE_LIBS = -Wl,--as-needed -L$(BUILD) -lherd -Wl,-rpath,'$$ORIGIN/..'

examples: $(EXAMPLES) $(BUILD)/examples/load
	@$(foreach host,$(HOSTS_MISSING),echo 'examples: no $(call host_part,$(host),2): $(call host_part,$(host),1) is left out';)
$(foreach host,$(HOSTS),$(eval $(BUILD)/examples/$(call host_part,$(host),1): HOST_LIB = $(call host_part,$(host),3)))
$(EXAMPLES): include/herd.h include/herd.hpp $(wildcard c_examples/*.h) $(BUILD)/$(REAL)

$(BUILD)/examples/%: c_examples/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -std=gnu99 $(EXAMPLE_FLAGS) $< -o $@ $(LDFLAGS) $(EXAMPLE_LIBS) $(HOST_LIB)
$(BUILD)/examples/%: c_examples/%.cpp
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -std=gnu++17 $(EXAMPLE_FLAGS) $< -o $@ $(LDFLAGS) $(EXAMPLE_LIBS)

# Not a server, and made without the library.
LOAD_SOURCES := $(wildcard c_examples/load/*.c)
$(BUILD)/examples/load: $(LOAD_SOURCES) $(wildcard c_examples/load/*.h)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -std=gnu99 $(EXAMPLE_FLAGS) $(LOAD_SOURCES) -o $@ $(LDFLAGS)

demo: lib examples ## run the demonstration of the examples
	c_examples/demo.sh $(BUILD)/examples

# --- herdtop ---------------------------------------------------------------------------------

# In a folder of its own: it links the library as Rust code, and cargo would write that one's shared
# library over the one made above.
herdtop: $(BUILD)/herdtop ## build herdtop, the live view
$(BUILD)/herdtop: $(SOURCES) herdtop/Cargo.toml $(wildcard herdtop/src/*.rs)
	@mkdir -p $(BUILD)
	$(CARGO) build --locked -p herdtop --profile tool --target-dir $(BUILD)/herdtop-target
	$(INSTALL) -m 755 $(BUILD)/herdtop-target/$(CARGO_BUILD_TARGET:%=%/)tool/herdtop $@

picture: lib examples herdtop ## make docs/herdtop.svg of a real run (needs tmux, python3)
	docs/tools/herdtop_svg.sh $(BUILD)

# --- The header ------------------------------------------------------------------------------

# Cargo decides whether it has to be made again.
$(BUILD)/herd.h: FORCE
	@mkdir -p $(BUILD)
	HERD_HEADER_OUT=$(abspath $@) $(CARGO) check --locked --lib --features header --target-dir $(BUILD)/header-target

header: $(BUILD)/herd.h ## regenerate include/herd.h from the Rust sources
	cmp -s $< include/herd.h || cp $< include/herd.h

header-check: $(BUILD)/herd.h ## fail if include/herd.h differs from a fresh one
	@diff -u include/herd.h $< || { echo 'header-check: include/herd.h does not fit the sources: run `make header`' >&2; exit 1; }

# --- The manual ------------------------------------------------------------------------------

# A page for each family of calls. docs/man/ has what is written by hand, the header all else. Each call has a page
# of its own name that leads to its family's (`.so`).
MAN_PAGES := $(patsubst docs/man/%.in,$(BUILD)/man/%,$(wildcard docs/man/*.in))
# Prints lines of a name and the page that it leads to.
man_links  = for frame in docs/man/*.3.in; do page=$$(basename $$frame .in); \
		for name in $$(sed -n 's/^calls: //p; s/^callbacks: //p' $$frame); do \
			[ $$name.3 = $$page ] || echo $$name.3 $$page; \
		done; \
	done
# A date, or "unreleased".
RELEASED  := $(shell sed -n 's/^.. [0-9][0-9.]* - //p' CHANGELOG.md | head -n 1)

man: $(BUILD)/man/links ## make the manual pages in build/man/
$(BUILD)/man/%: docs/man/%.in docs/man/header.awk docs/man/page.awk include/herd.h CHANGELOG.md
	@mkdir -p $(@D)
	awk -f docs/man/header.awk -f docs/man/page.awk -v version=$(VERSION) -v released=$(RELEASED) include/herd.h $< >$@

$(BUILD)/man/links: $(MAN_PAGES)
	{ $(man_links); } >$@

reference: man ## make the manual as HTML in build/reference/ (needs mandoc)
	docs/man/reference.sh $(BUILD)/man $(BUILD)/reference

# --- The tests -------------------------------------------------------------------------------

# Programs are compiled against an installed tree only. hooks_* run with a library built with the
# feature test-hooks; preload_* and lib_* are shared objects that tests load; consumer.* belongs to
# tests/sh/consumer.sh.
STAGE      := $(abspath $(BUILD))/stage
TEST_NAMES := $(notdir $(basename $(wildcard tests/c/*.c tests/c/*.cpp)))
TEST_SO    := $(patsubst %,$(BUILD)/tests/%.so,$(filter preload_% lib_%,$(TEST_NAMES)))
TEST_HOOKS := $(patsubst %,$(BUILD)/tests/%,$(filter hooks_%,$(TEST_NAMES)))
TEST_PLAIN := $(patsubst %,$(BUILD)/tests/%,$(filter-out preload_% lib_% hooks_% consumer,$(TEST_NAMES)))
TEST_FLAGS := -Wall -Wextra -Wpedantic -Werror -pthread
TEST_C      = $(CC) $(CPPFLAGS) $(CFLAGS) -std=c99 $(TEST_FLAGS)
TEST_CXX    = $(CXX) $(CPPFLAGS) $(CXXFLAGS) -std=c++17 $(TEST_FLAGS)

test: all $(TEST_PLAIN) $(TEST_HOOKS) $(TEST_SO) | test-tools ## build and run all tests, or those that match T=pattern
	HERD_BUILD=$(abspath $(BUILD)) CARGO='$(CARGO)' CC='$(CC)' CXX='$(CXX)' tests/run.sh '$(T)'

$(TEST_PLAIN): LINK = $$(cat $(BUILD)/stage.flags)
$(TEST_HOOKS): LINK = -I$(STAGE)/usr/include -L$(BUILD)/hooks -lherd
$(TEST_PLAIN) $(TEST_HOOKS) $(TEST_SO): $(BUILD)/stage.flags $(wildcard tests/c/*.h)
$(TEST_HOOKS): $(BUILD)/hooks/$(SONAME)

$(BUILD)/tests/%.so: tests/c/%.c
	@mkdir -p $(@D)
	$(TEST_C) -fPIC -shared $< -o $@ $(LDFLAGS) -ldl
$(BUILD)/tests/%: tests/c/%.c
	@mkdir -p $(@D)
	$(TEST_C) $< -o $@ $(LDFLAGS) $(LINK)
$(BUILD)/tests/%: tests/c/%.cpp
	@mkdir -p $(@D)
	$(TEST_CXX) $< -o $@ $(LDFLAGS) $(LINK)

# An installed tree, and how to compile against it.
$(BUILD)/stage.flags: $(LIBS) include/herd.h include/herd.hpp pkgconfig/herd.pc.in \
		$(wildcard cmake/*.in) Makefile | test-tools
	rm -rf $(STAGE)
	$(MAKE) install-lib DESTDIR=$(STAGE) PREFIX=/usr LIBDIR=/usr/lib INCLUDEDIR=/usr/include
	if command -v $(PKG_CONFIG) >/dev/null; then \
		PKG_CONFIG_LIBDIR=$(STAGE)/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$(STAGE) \
		PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 $(PKG_CONFIG) --cflags --libs herd; \
	else echo -I$(STAGE)/usr/include -L$(STAGE)/usr/lib -lherd; fi >$@

$(BUILD)/hooks/$(SONAME): $(SOURCES)
	@mkdir -p $(@D)
	CARGO_PROFILE_DEV_OPT_LEVEL=1 $(CARGO) rustc --locked --lib --features test-hooks --crate-type cdylib \
		--target-dir $(BUILD)/hooks-target
	$(INSTALL) -m 755 $(BUILD)/hooks-target/$(CARGO_BUILD_TARGET:%=%/)debug/libherd.so $@
	ln -sf $(SONAME) $(@D)/libherd.so

# --- Fuzzing ---------------------------------------------------------------------------------

# What `cargo fuzz` passes to the compiler (coverage for libFuzzer, the address sanitizer), which a stable one
# takes as well when it is told to. A target of its own keeps it from build scripts.
FUZZ_SECONDS ?= 10
FUZZ_TARGETS := $(notdir $(basename $(wildcard fuzz/fuzz_targets/*.rs)))
FUZZ_HOST     = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_DIR      = $(abspath $(BUILD))/fuzz
FUZZ_FLAGS   := --cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module -Ccodegen-units=1 \
	-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-trace-compares \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table

fuzz-build: ## build the fuzz targets
	cd fuzz && RUSTC_BOOTSTRAP=1 RUSTFLAGS='$(FUZZ_FLAGS)' $(CARGO) build --release --locked --bins \
		--target $(FUZZ_HOST) --target-dir $(FUZZ_DIR)/target

fuzz: $(addprefix fuzz-run-,$(FUZZ_TARGETS)) ## run each fuzz target for FUZZ_SECONDS (FUZZ_TARGETS=name: one of them)
fuzz-run-%: fuzz-build
	@mkdir -p $(FUZZ_DIR)/corpus/$* $(FUZZ_DIR)/found; \
	$(FUZZ_DIR)/target/$(FUZZ_HOST)/release/$* -max_total_time=$(FUZZ_SECONDS) -timeout=20 -max_len=1024 \
		-artifact_prefix=$(FUZZ_DIR)/found/$*- $(FUZZ_DIR)/corpus/$* >$(FUZZ_DIR)/$*.log 2>&1 \
		|| { echo 'fuzz: $*'; tail -n 60 $(FUZZ_DIR)/$*.log; exit 1; }; \
	echo "fuzz: $*: $$(tail -n 1 $(FUZZ_DIR)/$*.log)"

check-slow: ## run all tests, the long ones at full length, and again under every checker
	HERD_TEST_SLOW=1 $(MAKE) test

noise: all $(TEST_PLAIN) $(TEST_HOOKS) $(TEST_SO) | test-tools ## run all tests, or those that match T=pattern, 5 times (N=times) on a machine that is busy and stands still at times
	HERD_BUILD=$(abspath $(BUILD)) CARGO='$(CARGO)' CC='$(CC)' CXX='$(CXX)' tests/noise.sh '$(T)' '$(N)'

coverage: all $(TEST_PLAIN) $(TEST_HOOKS) $(TEST_SO) | test-tools ## report which lines and branches of src/ the tests reach, into build/coverage/
	HERD_BUILD=$(abspath $(BUILD)) CARGO='$(CARGO)' CC='$(CC)' CXX='$(CXX)' tests/coverage.sh '$(T)'

# The tools that tests use, as command:package, or file:package. Root gets the missing ones installed; without them
# the tests concerned are skipped.
TOOLS := curl:curl wrk:wrk ab:apache2-utils valgrind:valgrind pkg-config:pkg-config readelf:binutils \
	tmux:tmux /usr/lib/python3/dist-packages/prometheus_client/parser.py:python3-prometheus-client \
	cmake:cmake meson:meson ninja:ninja-build clang++:clang mandoc:mandoc
test-tools:
	@mkdir -p $(BUILD); updated=; is_there() { case $$1 in /*) test -e $$1 ;; *) command -v $$1 >/dev/null ;; esac; }; \
	for tool in $(TOOLS); do \
		command=$${tool%:*} package=$${tool#*:}; \
		is_there $$command && continue; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "test-tools: installing $$package"; \
			{ [ "$$updated" ] || apt-get update; updated=yes; \
			  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$package; \
			} </dev/null >>$(BUILD)/test-tools.log 2>&1; \
		fi; \
		is_there $$command || echo "test-tools: no $$command (package $$package): its tests are skipped"; \
	done

# --- The binary interface: docs/stability.md --------------------------------------------------

abi-golden: lib ## write tests/abi/*.golden anew, after a change that docs/stability.md allows
	UPDATE=1 HERD_BUILD=$(abspath $(BUILD)) CC='$(CC)' sh tests/sh/exports.sh
	UPDATE=1 HERD_BUILD=$(abspath $(BUILD)) CC='$(CC)' sh tests/sh/layout.sh

abi-check: lib ## compare with the last release (the last tag, or BASE=COMMIT): does what was built for it still run?
	HERD_BUILD=$(abspath $(BUILD)) CC='$(CC)' BASE='$(BASE)' sh tests/abi/check.sh

# --- The benchmarks --------------------------------------------------------------------------

# bench/ holds small programs: what drives and looks, and parts of the library by themselves; bench/peers/ what libherd
# is compared with; bench/harness/ the crate that runs them all, keeps the figures and makes the tables.
BENCH      := $(BUILD)/harness-target/harness/herd-bench
BENCH_C     = $(CC) $(CPPFLAGS) $(CFLAGS) -std=gnu11 -Wall -Wextra -Wpedantic -Werror -pthread -Iinclude
BENCHES    := $(addprefix $(BUILD)/bench/,clients lock arming memory turn burn.so libbare_lock.so)
# A peer is built if its header is there, which `bench-tools` sees to.
has         = $(wildcard $(addsuffix /$(1),/usr/include /usr/local/include))
LIBRARIES   = $(if $(call has,event2/event.h),libevent) $(if $(call has,ev.h),libev) $(if $(call has,uv.h),libuv)
LOOPS       = timers_herd events_herd events_raw $(foreach library,$(LIBRARIES),timers_$(library) events_$(library))
PEERS       = $(addprefix $(BUILD)/peers/,raw_server $(addsuffix _server,$(LIBRARIES)) $(LOOPS))
link_libevent := -levent_core
link_libev    := -lev
link_libuv    := -luv
link_herd      = $(EXAMPLE_LIBS)

bench: bench-build ## measure libherd beside its peers into build/results.json, make docs/benchmarks.md of it
	$(BENCH) run $(BUILD) $(BUILD)/results.json
	$(BENCH) report $(BUILD)/results.json docs

bench-quick: bench-build ## the same in under 5 minutes, into build/quick/
	$(BENCH) run --quick $(BUILD) $(BUILD)/quick.json
	$(BENCH) report $(BUILD)/quick.json $(BUILD)/quick

bench-promises: bench-build ## measure what the library promises, beside the limits (QUICK=1: fewer rounds)
	$(BENCH) promises $(if $(QUICK),--quick) $(BUILD) $(BUILD)/promises.json

# The peers that there are is known only when the tools are there.
bench-build: lib examples $(BENCHES) $(BENCH) | bench-tools
	$(MAKE) bench-peers
bench-peers: $(PEERS)

BENCH_TOOLS := wrk:wrk strace:strace valgrind:valgrind nginx:nginx perl:libnginx-mod-http-perl event.h:libevent-dev ev.h:libev-dev uv.h:libuv1-dev
bench-tools:
	@mkdir -p $(BUILD); updated=; \
	for tool in $(BENCH_TOOLS); do \
		what=$${tool%:*} package=$${tool#*:}; \
		has() { case $$what in \
			*.h) [ -e /usr/include/$$what ] || [ -e /usr/local/include/$$what ] ;; \
			perl) [ -e /usr/lib/nginx/modules/ngx_http_perl_module.so ] ;; \
			nginx) [ -x /usr/sbin/nginx ] || [ -x /usr/local/sbin/nginx ] ;; \
			*) command -v $$what >/dev/null ;; esac; }; \
		has && continue; \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "bench-tools: installing $$package"; \
			{ [ "$$updated" ] || apt-get update; updated=yes; \
			  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$package; \
			} </dev/null >>$(BUILD)/bench-tools.log 2>&1; \
		fi; \
		has || echo "bench-tools: no $$package: what needs it is skipped"; \
	done

$(BENCH): $(SOURCES) bench/harness/Cargo.toml $(shell find bench/harness/src -name '*.rs')
	$(CARGO) build --locked --package herd-bench --profile harness --target-dir $(BUILD)/harness-target
	touch $@

bench-counting: lib examples $(BUILD)/bench/turn $(BUILD)/uncounted/$(SONAME) ## measure what counting costs a short connection (ROUNDS=N)
	ROUNDS='$(ROUNDS)' bench/counting.sh $(BUILD)

$(BUILD)/uncounted/$(SONAME): $(SOURCES)
	@mkdir -p $(@D)
	$(CARGO) rustc --release --locked --lib --features uncounted --crate-type cdylib --target-dir $(BUILD)/uncounted-target
	$(INSTALL) -m 755 $(BUILD)/uncounted-target/$(CARGO_BUILD_TARGET:%=%/)release/libherd.so $@

$(BENCHES): include/herd.h $(wildcard bench/*.h)
$(BUILD)/bench/arming $(BUILD)/bench/memory $(BUILD)/bench/lock $(BUILD)/bench/turn: LINK = $(EXAMPLE_LIBS)
$(BUILD)/bench/lock: LINK += -L$(BUILD)/bench -lbare_lock -Wl,-rpath,'$$ORIGIN'
$(BUILD)/bench/lock: $(BUILD)/bench/libbare_lock.so
$(BUILD)/bench/arming $(BUILD)/bench/memory $(BUILD)/bench/lock $(BUILD)/bench/turn: $(BUILD)/$(REAL)
$(BUILD)/peers/timers_herd $(BUILD)/peers/events_herd: $(BUILD)/$(REAL) include/herd.h

$(BUILD)/bench/lib%.so: bench/%.c
	@mkdir -p $(@D)
	$(BENCH_C) -fPIC -shared $< -o $@ $(LDFLAGS)
$(BUILD)/bench/%.so: bench/%.c
	@mkdir -p $(@D)
	$(BENCH_C) -fPIC -shared $< -o $@ $(LDFLAGS)
$(BUILD)/bench/%: bench/%.c
	@mkdir -p $(@D)
	$(BENCH_C) $< -o $@ $(LDFLAGS) $(LINK)

$(BUILD)/peers/%_server: bench/peers/%_server.c $(wildcard bench/peers/*.h)
	@mkdir -p $(@D)
	$(BENCH_C) $< -o $@ $(LDFLAGS) $(link_$*)
$(BUILD)/peers/timers_%: bench/peers/timers.c
	@mkdir -p $(@D)
	$(BENCH_C) -DFOR_$(shell echo $* | tr a-z A-Z) $< -o $@ $(LDFLAGS) $(link_$*)
$(BUILD)/peers/events_%: bench/peers/events.c
	@mkdir -p $(@D)
	$(BENCH_C) -DFOR_$(shell echo $* | tr a-z A-Z) $< -o $@ $(LDFLAGS) $(link_$*)

# --- Installation ----------------------------------------------------------------------------

# Paths in herd.pc below the prefix are written relative to it; CMake's files find theirs from where
# they are.
pc_path   = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))
PC_DIR    = $(DESTDIR)$(LIBDIR)/pkgconfig
CMAKE_DIR = $(DESTDIR)$(LIBDIR)/cmake/herd
# quoted TEXT: what stands for it in the replacement of `sed 's|...|...|'`
quoted = $(subst |,\|,$(subst &,\&,$(1)))
# fill TEMPLATE INTO-DIRECTORY
fill = sed -e 's|@PREFIX@|$(call quoted,$(PREFIX))|' -e 's|@LIBDIR@|$(call quoted,$(call pc_path,$(LIBDIR)))|' \
	-e 's|@INCLUDEDIR@|$(call quoted,$(call pc_path,$(INCLUDEDIR)))|' -e 's|@VERSION@|$(VERSION)|' -e 's|@SONAME@|$(SONAME)|' \
	-e "s|@LIBS_PRIVATE@|$$(cat $(BUILD)/native-static-libs)|" \
	-e "s|@LIBS_PRIVATE_LIST@|$$(tr -s ' ' ';' <$(BUILD)/native-static-libs)|" \
	-e "s|@INCLUDEDIR_FROM_LIBDIR@|$$(realpath -ms --relative-to='$(LIBDIR)' '$(INCLUDEDIR)' | sed 's/[&|]/\\&/g')|" \
	-e "s|@POINTER_BYTES@|$$(echo __SIZEOF_POINTER__ | $(CC) -E -P -)|" $(1) >'$(2)/$(notdir $(1:.in=))' && \
	chmod 644 '$(2)/$(notdir $(1:.in=))'

# herd.pc gives them to compilers that run in other directories, and a shell and pkg-config read them in
# quotes.
paths-check:
	@:$(foreach name,PREFIX LIBDIR INCLUDEDIR BINDIR MANDIR,$(if $(filter /%,$(firstword $($(name)))),,\
		$(error $(name)=$($(name)) is no absolute path))$(foreach character,' " \ $$,\
		$(if $(findstring $(character),$($(name))),$(error $(name)=$($(name)) has a $(character)))))

install: install-lib install-herdtop install-man ## install below PREFIX (see also DESTDIR, LIBDIR, INCLUDEDIR, BINDIR, MANDIR)

install-herdtop: paths-check $(BUILD)/herdtop ## install herdtop alone
	$(INSTALL) -d '$(DESTDIR)$(BINDIR)'
	$(INSTALL) -m 755 $(BUILD)/herdtop '$(DESTDIR)$(BINDIR)/herdtop'

install-lib: paths-check $(LIBS) ## install the library alone, which needs fewer crates
	$(INSTALL) -d '$(PC_DIR)' '$(CMAKE_DIR)' '$(DESTDIR)$(INCLUDEDIR)'
	$(INSTALL) -m 755 $(BUILD)/$(REAL) '$(DESTDIR)$(LIBDIR)/$(REAL)'
	ln -sf $(REAL) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libherd.so'
	$(INSTALL) -m 644 $(BUILD)/libherd.a '$(DESTDIR)$(LIBDIR)/libherd.a'
	$(INSTALL) -m 644 include/herd.h include/herd.hpp '$(DESTDIR)$(INCLUDEDIR)'
	$(call fill,pkgconfig/herd.pc.in,$(PC_DIR))
	$(call fill,cmake/herdConfig.cmake.in,$(CMAKE_DIR))
	$(call fill,cmake/herdConfigVersion.cmake.in,$(CMAKE_DIR))

install-man: paths-check $(BUILD)/man/links ## install the manual alone
	$(INSTALL) -d '$(DESTDIR)$(MANDIR)/man1' '$(DESTDIR)$(MANDIR)/man3' '$(DESTDIR)$(MANDIR)/man7'
	$(foreach section,1 3 7,$(INSTALL) -m 644 $(filter %.$(section),$(MAN_PAGES)) '$(DESTDIR)$(MANDIR)/man$(section)' &&) :
	umask 022; while read -r name page; do echo ".so man3/$$page" >'$(DESTDIR)$(MANDIR)/man3'/$$name; done <$(BUILD)/man/links

# Removes a directory only if it is empty, and never the system's own.
uninstall: ## remove what install put there
	for file in $(REAL) $(SONAME) libherd.so libherd.a pkgconfig/herd.pc cmake/herd/herdConfig.cmake \
		cmake/herd/herdConfigVersion.cmake; do rm -f '$(DESTDIR)$(LIBDIR)'/$$file; done
	rm -f '$(DESTDIR)$(INCLUDEDIR)/herd.h' '$(DESTDIR)$(INCLUDEDIR)/herd.hpp' '$(DESTDIR)$(BINDIR)/herdtop'
	$(foreach section,1 3 7,rm -f $(patsubst $(BUILD)/man/%,'$(DESTDIR)$(MANDIR)/man$(section)/%',$(filter %.$(section),$(MAN_PAGES)));) :
	{ $(man_links); } | cut -d ' ' -f 1 | (cd '$(DESTDIR)$(MANDIR)/man3' 2>/dev/null && xargs rm -f) || :
	for dir in '$(PC_DIR)' '$(CMAKE_DIR)' '$(DESTDIR)$(LIBDIR)/cmake' '$(DESTDIR)$(LIBDIR)' \
		'$(DESTDIR)$(INCLUDEDIR)' '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(MANDIR)/man1' '$(DESTDIR)$(MANDIR)/man3' \
		'$(DESTDIR)$(MANDIR)/man7' '$(DESTDIR)$(MANDIR)' '$(DESTDIR)$(PREFIX)/share' '$(DESTDIR)$(PREFIX)'; do \
		case $$dir in /usr/bin | /usr/local/bin | /usr/lib | /usr/include | /usr/local/lib | /usr/local/include | /usr/local \
			| /usr/share | /usr/share/* | /usr/local/share | /usr/local/share/man | /usr | /) continue ;; esac; \
		[ ! -d "$$dir" ] || rmdir --ignore-fail-on-non-empty "$$dir"; \
	done

clean: ## remove what was built here
	rm -rf $(BUILD) target

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | column -t -s '|'
