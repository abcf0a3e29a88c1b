# Sourced by `demo`, `smoke` and `test`: Debian packages where we are root, a virtual environment, and a container engine.
# A Docker daemon that was started here is ended by `end_docker`; one that ran before is left alone.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dockerd_pid=""
dockerd_data=""

say() { printf '\n== %s\n' "$*" >&2; }

# fail CODE FACT VALUE REMEDY: say what is wrong, the value that caused it and what to type instead; end the script with
# code 2 for the user's mistake, 1 for everything else.
fail() {
    printf '\nerror: %s: %s\n  try: %s\n' "${@:2}" >&2
    exit "$1"
}

# Answer -h and --help with the comment at the top of the script, before anything else is done.
answer_help() {
    case ${1:-} in
        -h | --help)
            sed -n '2,/^[^#]/ s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
    esac
}

# Install those of the given package=program pairs whose program (or file) is missing; return 1 if that needs root.
install_missing() {
    local pair missing=()
    python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)
    for pair in "$@"; do
        command -v "${pair#*=}" > /dev/null 2>&1 || [ -e "${pair#*=}" ] || missing+=("${pair%%=*}")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get > /dev/null; then
        say "not installed: ${missing[*]}; as root on Debian or Ubuntu: apt-get install ${missing[*]}"
        return 1
    fi
    say "installing ${missing[*]}"
    apt-get -qq update
    # debconf's one remark, that it works without apt-utils, is of no use to anybody.
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${missing[@]}" \
        > /dev/null 2> >(grep -v '^debconf: delaying package configuration' >&2)
}

# Make .venv with what build.py needs and the named extras ("" or "[test]"), and put it first in PATH.
virtual_environment() {
    local stamp="$here/.venv/installed$1"
    if [ ! -e "$stamp" ] || [ "$here/pyproject.toml" -nt "$stamp" ]; then
        say "installing the Python packages that build.py needs into .venv"
        # An interrupted venv leaves a Python without pip, or with half of it, which is not listed; venv completes it.
        "$here/.venv/bin/python" -m pip show --quiet pip > /dev/null 2>&1 || python3 -m venv "$here/.venv"
        install_python_packages "$here$1"
        touch "$stamp"
    fi
    export PATH="$here/.venv/bin:$PATH"
}

# uv, which build.py needs anyhow, takes a quarter of pip's time. It knows nothing of an index that pip was told to use.
install_python_packages() {
    local python="$here/.venv/bin/python"
    if ! "$python" -m pip config list | grep --quiet --extended-regexp '[.](index-url|no-index)='; then
        "$python" -m pip install --quiet --quiet uv &&
            "$here/.venv/bin/uv" pip install --no-cache --python "$python" --editable "$1" 2> /dev/null && return 0
    fi
    # Twice quiet leaves out warnings, such as those about find-links that lack a package; errors are shown.
    "$python" -m pip install --quiet --quiet --editable "$1"
}

docker_answers() { timeout 20 docker version --format '{{.Server.Version}}' > /dev/null 2>&1; }

# Start a Docker daemon and wait until it answers; return 1 where that is not possible. Given a directory, the daemon
# keeps everything in it, socket included; given "", it is the daemon of this machine.
start_docker() {
    local options=()
    [ "$(id -u)" -eq 0 ] && command -v dockerd > /dev/null || return 1
    say "starting a Docker daemon"
    if [ -n "$1" ]; then
        export DOCKER_HOST="unix://$1/docker.sock"
        options=(--host "$DOCKER_HOST" --data-root "$1/data" --exec-root "$1/run" --pidfile "$1/docker.pid")
        dockerd_data="$1/data"
        mkdir -p "$1"
    fi
    mkdir -p "$here/.venv"
    # In a session of its own: ^C is for what uses it, and ends it only through end_docker.
    setsid dockerd "${options[@]}" > "$here/.venv/dockerd.log" 2>&1 &
    dockerd_pid=$!
    local deadline=$((SECONDS + 60))
    until docker_answers; do
        if ! kill -0 "$dockerd_pid" 2> /dev/null || [ $SECONDS -ge $deadline ]; then
            say "the Docker daemon did not start; the end of .venv/dockerd.log:"
            tail -n 5 "$here/.venv/dockerd.log" >&2
            return 1
        fi
        sleep 0.3
    done
}

# End the daemon that start_docker started, and wait for its end.
end_docker() {
    [ -n "$dockerd_pid" ] || return 0
    kill "$dockerd_pid" 2> /dev/null || true
    wait "$dockerd_pid" 2> /dev/null || true
    dockerd_pid=""
    # dockerd mounts its data directory on itself, and leaves that behind.
    [ -z "$dockerd_data" ] || umount "$dockerd_data" 2> /dev/null || true
}

# Set `engine` to what runs containers: a Docker daemon that answers, else podman, else a Docker daemon started here.
# shellcheck disable=SC2034  # the caller reads it
find_engine() {
    engine=docker
    docker_answers && return 0
    [ -z "${DOCKER_HOST:-}" ] || fail 1 "no Docker daemon answers" "DOCKER_HOST=$DOCKER_HOST" "unset DOCKER_HOST"
    if command -v podman > /dev/null; then
        engine=podman
        prepare_podman
        return 0
    fi
    # The client is often there without the daemon, so it is the daemon that is looked for.
    install_missing docker.io=dockerd iptables=iptables || true
    # With systemd, the package has started the daemon already.
    docker_answers || start_docker "" ||
        fail 1 "no container engine" "no Docker daemon answers, and no podman" "start Docker, or apt-get install podman"
}

# Let podman's containers find each other by name on a network.
prepare_podman() {
    case $(podman info --format '{{.Host.NetworkBackend}}') in
        cni) install_missing golang-github-containernetworking-plugin-dnsname=/usr/lib/cni/dnsname iptables=iptables ;;
        netavark) install_missing aardvark-dns=/usr/lib/podman/aardvark-dns iptables=iptables ;;
    esac
}
