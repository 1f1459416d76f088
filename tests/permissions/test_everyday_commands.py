"""What developers of ten ecosystems type all day, which only reads or tests: in the sandbox nothing of it asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_cli.core.decisions import Level
from agent_cli.permissions.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.permissions.corpus.place import build
from tests.support.sandboxes import confined

ECOSYSTEMS = {
    "Python": """
        pytest -q
        pytest tests/test_main.py::test_one -x --tb=short -p no:cacheprovider
        python -m pytest tests -k one
        python -m unittest discover -s tests
        python -m compileall -q src
        python --version
        ruff check .
        ruff format --check --diff src
        mypy .
        pyright
        black --check --diff .
        isort --check-only src
        flake8 src
        pylint src
        coverage run -m pytest
        coverage report -m
        pip list --outdated --local
        pip list
        pip show pytest
        pip freeze
        uv run pytest
        uv pip list
        uv tree
        poetry run pytest
        poetry show --tree
        tox -e py312
        nox -s tests
        pdm run pytest
        conda list
        pre-commit run --all-files
    """,
    "JS": """
        npm test
        npm test -- --watch=false
        npm run lint
        npm ls --depth=0
        npx tsc --noEmit
        npx eslint .
        npx jest --ci
        npx vitest run
        npx prettier --check .
        yarn test
        yarn lint
        pnpm test
        pnpm -r test
        pnpm exec tsc --noEmit
        bun test
        node --test
        node --check src/deep/x.js
        node -v
        tsc -p . --noEmit
        eslint src --ext .js --max-warnings=0
        prettier --check "src/**/*.js"
        jest --coverage=false
        vitest run
        mocha tests
        deno test
        deno lint
        deno fmt --check
    """,
    "Go": """
        go test ./...
        go test -race -run TestOne -count=1 -v ./...
        go test -coverprofile=cover.out ./...
        go tool cover -func=cover.out
        go vet ./...
        go build ./...
        go list ./...
        go list -m all
        go mod graph
        go mod verify
        go mod why example.org/x
        go doc fmt.Println
        go version
        go env GOPATH
        gofmt -l .
        gofmt -d src
        golangci-lint run
        staticcheck ./...
    """,
    "Rust": """
        cargo test
        cargo test --workspace -- --nocapture
        cargo check
        cargo check --all-targets
        cargo clippy
        cargo clippy --all-targets -- -D warnings
        cargo fmt --check
        cargo fmt --all -- --check
        cargo build --release
        cargo tree
        cargo metadata --format-version 1 --no-deps
        cargo doc --no-deps
        cargo bench
        cargo nextest run
        cargo --version
        rustc --version
        rustfmt --check src/main.rs
    """,
    "Java": """
        mvn -o test
        mvn -q -o -Dtest=OneTest test
        mvn test
        mvn -o verify
        mvn dependency:tree -o
        ./mvnw -o test
        mvn -v
        gradle --offline test
        gradle --offline build -x test
        gradle test --tests OneTest
        ./gradlew check
        gradle tasks
        gradle dependencies --offline
        javac -version
        javac -d build src/Main.java
        java -version
        java -jar app.jar
        jar tf app.jar
        bazel test //...
        sbt test
    """,
    "Ruby": """
        bundle exec rspec
        bundle exec rubocop
        bundle exec rake test
        bundle list
        bundle check
        rspec
        rspec spec/a_spec.rb:12 --format documentation
        rubocop
        rake test
        rails test
        ruby -c src/a.rb
        ruby -v
        gem list
        gem list --local rails
        ruby -Itest test/a_test.rb
    """,
    "C": """
        make test
        make -j4 check
        make -n
        cmake --build build
        cmake --build build --target test -j 4
        cmake -S . -B build
        ctest
        ctest --test-dir build --output-on-failure
        meson test -C build
        ninja -C build test
        gcc -Wall -c x.c
        gcc -Wall -Wextra -o x x.c -lm
        g++ -std=c++20 -fsyntax-only x.cpp
        clang -fsanitize=address x.c -o x
        gcc --version
        clang-format --dry-run -Werror src/x.c
        clang-tidy src/x.c
        cppcheck src
        nm build/x.o
        objdump -d build/x.o
        ldd build/x
        readelf -h build/x
        valgrind ./build/x
        ./build/x
    """,
    "containers": """
        docker ps
        docker ps -a --format json
        docker images
        docker image ls -q
        docker version
        docker info
        docker volume ls
        docker network ls
        docker stats --no-stream
        docker compose ls
        docker compose version
        podman ps -a
        podman images
        hadolint Dockerfile
        kubectl get pods
        kubectl get pods -n web -o wide
        kubectl get svc,deploy -A
        kubectl get pods -w
        kubectl rollout status deploy/web
        kubectl top pods
        kubectl config current-context
        kubectl version --client
        helm list -A
        helm version --short
        helm history web
        helm lint chart
        helm template web chart
        kubectl kustomize src
    """,
    "cloud": """
        terraform validate
        terraform fmt -check
        terraform fmt -check -recursive -diff
        terraform version
        terraform providers
        terraform graph
        tofu validate
        aws --version
        gcloud --version
        gcloud version
        az --version
        az version
        gh --version
        gh pr list
        gh pr view 12 --comments
        gh issue list --label bug
        gh run list --limit 5
        glab --version
        ansible --version
        pulumi version
        helm version
        tflint
    """,
    "git": """
        git status
        git status -sb
        git log --oneline -20 --graph --all
        git log -p -3 -- src
        git diff
        git diff --stat HEAD~1
        git diff --cached
        git show HEAD
        git show --stat v1
        git blame src/main.py
        git blame -L 1,5 a.txt
        git stash list
        git branch -a
        git branch -vv
        git branch --show-current
        git remote -v
        git tag --list
        git describe --tags
        git rev-parse HEAD
        git rev-parse --show-toplevel
        git ls-files
        git grep -n main
        git shortlog -sn HEAD
        git reflog
        git config --get user.name
        git worktree list
        git merge-base main other
        git rev-list --count HEAD
        git check-ignore -v a.txt
        git cat-file -p HEAD
        git cherry -v main
        git submodule status
        git ls-tree -r HEAD --name-only
        git fsck
        git count-objects -vH
    """,
}
LINES = [line.strip() for lines in ECOSYSTEMS.values() for line in lines.strip().splitlines()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = build(tmp_path_factory.mktemp("everyday"), git=True)
    for program in ("tsc", "eslint", "jest", "vitest", "prettier"):
        (root / "node_modules/.bin").mkdir(parents=True, exist_ok=True)
        (root / "node_modules/.bin" / program).touch()
    return root


@pytest.mark.parametrize("command", LINES)
def test_what_reads_or_tests_asks_nothing_in_the_sandbox(root: Path, command: str) -> None:
    home = str(root.parent / "home")
    policy = Policy(
        Workspace(root, home=home),
        home=home,
        env={"PATH": "/usr/bin:/bin"},
        confined=confined(root, root.parent / "home"),
    )
    decision = policy.decide("Bash", [Effect("run", command)])
    assert decision.level is Level.ALLOW, decision.reason
