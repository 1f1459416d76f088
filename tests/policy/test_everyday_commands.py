"""What developers of ten ecosystems type all day, which only reads or tests: in the sandbox nothing of it asks.

Without a sandbox what only reads asks nothing, and what runs the project's code does. Beside them is what looks like it
and is more: it asks in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_cli.kernel.decisions import Level
from agent_cli.policy.policy import Policy
from agent_tools.base import Effect
from agent_tools.fs.workspace import Workspace
from tests.policy.corpus.place import build
from tests.support.sandboxes import confined

READS = {
    "Python": """
        python --version
        pip list
        pip show pytest
        python3 -V
        pip3 list
        pip check
        mypy --version
        rg -n 'def test_' tests
        cat pyproject.toml
        find . -name '*.py' -newer a.txt
    """,
    "JS": """
        node -v
        npm -v
        jq '.scripts' package.json
        cat package.json
        ls node_modules
        deno --version
        rg -n -t js TODO
    """,
    "Go": """
        cat go.mod
        rg -n 'func main' -g '*.go'
        wc -l src/main.py
    """,
    "Rust": """
        cat Cargo.toml
        rg -n unsafe -t rust
        du -sh src
    """,
    "Java": """
        unzip -l app.jar
        tar tf app.tar
        xmllint --noout pom.xml
        cat pom.xml
    """,
    "Ruby": """
        ruby -v
        cat Gemfile
        grep -rn TODO src
    """,
    "C": """
        gcc --version
        nm build/x.o
        readelf -h build/x
        cmake --version
        size build/x.o
        file build/x
        strings build/x
        cat Makefile
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
        kubectl rollout status deploy/web
        kubectl top pods
        kubectl config current-context
        kubectl version --client
        helm list -A
        helm version --short
        helm history web
        yq .services docker-compose.yml
        cat Dockerfile
    """,
    "cloud": """
        gh --version
        gh pr list
        gh pr view 12 --comments
        gh issue list --label bug
        gh run list --limit 5
        helm version
        jq .resources state.json
        cat main.tf
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
        git ls-tree -r HEAD --name-only
        git count-objects -vH
    """,
}
# They run code of the project, or write caches and what is built.
TESTS = {
    "Python": """
        pytest -q
        pytest tests/test_main.py::test_one -x --tb=short -p no:cacheprovider
        python -m pytest tests -k one
        python -m unittest discover -s tests
        python -m compileall -q src
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
        clang-format --dry-run -Werror src/x.c
        clang-tidy src/x.c
        cppcheck src
        objdump -d build/x.o
        ldd build/x
        valgrind ./build/x
        ./build/x
    """,
    "containers": """
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
        glab --version
        ansible --version
        pulumi version
        tflint
    """,
    "git": """
        git submodule status
        git fsck
    """,
}
MORE = {
    "Python": """
        pip install requests
        pip list --outdated
        python -m pip install -U pip
        pipx install x
        uv add x
        uv publish
        uv tool install x
        poetry publish
        twine upload dist/x
        conda install x
    """,
    "JS": """
        npm install
        npm publish
        npm install -g x
        npx cowsay
        yarn add x
        yarn
        pnpm dlx x
        bun add x
    """,
    "Go": """
        go get example.org/x
        go install example.org/x@latest
        go mod tidy
        go mod download
    """,
    "Rust": """
        cargo install x
        cargo publish
        cargo add x
        cargo login
    """,
    "Java": """
        mvn deploy
        gradle publish
        mvn dependency:resolve
    """,
    "Ruby": """
        gem push x.gem
        gem install x
        bundle install
        bundle update
    """,
    "C": """
        sudo make install
        apt-get install gcc
        make && sudo ldconfig
    """,
    "containers": """
        docker run -v /:/h alpine
        docker rm -f web
        docker exec web sh
        docker compose up -d
        podman run alpine
        kubectl apply -f src/x.yaml
        kubectl delete pod web
        kubectl get secrets
        kubectl logs web
        kubectl exec web -- sh
        helm upgrade web chart
        helm uninstall web
        docker system prune -f
    """,
    "cloud": """
        terraform init
        terraform apply
        terraform destroy -auto-approve
        aws s3 ls
        aws s3 rm s3://b/x
        gcloud compute instances delete x
        az vm delete -n x
        gh pr merge 12
        gh auth token
        gh api graphql
        gh repo view o/r
        pulumi up
    """,
    "git": """
        git push
        git push --force
        git fetch
        git pull
        git clone https://example.org/x
        git reset --hard HEAD~1
        git clean -fdx
        git stash drop
        git branch -D other
        git checkout -- a.txt
        git reflog expire --expire=now --all
        git gc --prune=now
        git config --global user.name x
        git update-ref -d refs/heads/other
        git submodule update --remote
    """,
}


def lines(table: Mapping[str, str]) -> list[str]:
    return [line.strip() for rows in table.values() for line in rows.strip().splitlines()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = build(tmp_path_factory.mktemp("everyday"), git=True)
    for program in ("tsc", "eslint", "jest", "vitest", "prettier"):
        (root / "node_modules/.bin").mkdir(parents=True, exist_ok=True)
        (root / "node_modules/.bin" / program).touch()
    return root


def asked(root: Path, command: str, *, sandbox: bool) -> str:
    """Why a command is asked about; "" if it is allowed."""
    home = root.parent / "home"
    policy = Policy(
        Workspace(root, home=str(home)),
        home=str(home),
        env={"PATH": "/usr/bin:/bin"},
        confined=confined(root, home) if sandbox else None,
    )
    decision = policy.decide("Bash", [Effect("run", command)])
    return "" if decision.level is Level.ALLOW else decision.reason


@pytest.mark.parametrize("command", lines(READS) + lines(TESTS))
def test_what_reads_or_tests_asks_nothing_in_the_sandbox(root: Path, command: str) -> None:
    assert not asked(root, command, sandbox=True)


@pytest.mark.parametrize("command", lines(READS))
def test_what_only_reads_asks_nothing_without_a_sandbox(root: Path, command: str) -> None:
    assert not asked(root, command, sandbox=False)


@pytest.mark.parametrize("command", lines(TESTS))
def test_what_runs_the_project_asks_without_a_sandbox(root: Path, command: str) -> None:
    assert asked(root, command, sandbox=False)


@pytest.mark.parametrize("sandbox", [True, False])
@pytest.mark.parametrize("command", lines(MORE))
def test_what_is_more_than_reading_and_testing_asks(root: Path, command: str, sandbox: bool) -> None:
    assert asked(root, command, sandbox=sandbox)


def test_there_are_enough_of_each_ecosystem() -> None:
    assert len(READS) == len(TESTS) == len(MORE) == 10
    assert len(lines(READS) + lines(TESTS)) >= 200 and all(len(lines({"": rows})) >= 3 for rows in MORE.values())
