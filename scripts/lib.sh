# Sourced by `demo` and `test`: a virtual environment, and where we are root the Debian packages and a Docker daemon.
# What was started here is ended by `tidy`, what ran before is left alone.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dockerd_pid=""

say() { printf '\n== %s\n' "$*" >&2; }

# Install those of the given package=program pairs whose program is missing, and what a virtual environment needs.
install_missing() {
    local pair missing=()
    python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)
    for pair in "$@"; do
        command -v "${pair#*=}" > /dev/null 2>&1 || [ -e "${pair#*=}" ] || missing+=("${pair%%=*}")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
        say "not here: ${missing[*]}; as root: apt-get install ${missing[*]}"
        return 0
    fi
    say "installing ${missing[*]}"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${missing[@]}" > /dev/null
}

docker_answers() { timeout 20 docker version --format '{{.Server.Version}}' > /dev/null 2>&1; }

# Start a daemon where there is none and we may; wait until it answers.
start_docker() {
    docker_answers && return 0
    [ "$(id -u)" -eq 0 ] && command -v dockerd > /dev/null || return 0
    say "starting a Docker daemon"
    dockerd > "$here/.venv/dockerd.log" 2>&1 &
    dockerd_pid=$!
    local deadline=$((SECONDS + 60))
    until docker_answers; do
        if ! kill -0 "$dockerd_pid" 2> /dev/null || [ $SECONDS -ge $deadline ]; then
            say "the Docker daemon did not start; its last words:"
            tail -n 5 "$here/.venv/dockerd.log" >&2
            return 0
        fi
        sleep 0.3
    done
}

# End what start_docker began.
tidy() {
    [ -n "$dockerd_pid" ] || return 0
    kill "$dockerd_pid" 2> /dev/null || true
    wait "$dockerd_pid" 2> /dev/null || true
}

# A virtual environment with what build.py needs, and the named extras ("" or "[test]").
virtual_environment() {
    local stamp="$here/.venv/installed$1"
    if [ ! -e "$stamp" ] || [ "$here/pyproject.toml" -nt "$stamp" ]; then
        say "installing what build.py needs into .venv"
        [ -x "$here/.venv/bin/python" ] || python3 -m venv "$here/.venv"
        "$here/.venv/bin/python" -m pip install --quiet --editable "$here$1"
        touch "$stamp"
    fi
    export PATH="$here/.venv/bin:$PATH"
}
