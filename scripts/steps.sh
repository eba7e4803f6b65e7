# What scripts/test and scripts/test-long share: named steps with times, and tools that are
# installed when they are missing. To be sourced; changes to the root of the repository.

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

script=scripts/$(basename -- "$0")
current_step=
step_names=()
step_times=()

# No debug info and no incremental state: nothing here is debugged or rebuilt, and panics name their line without.
export CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_DEBUG=0
export CARGO_PROFILE_TEST_DEBUG=0

# Output of background steps, their times, and what the summary has to say besides.
logs=$(mktemp -d)
lane_processes=()
lane_steps=()

# step NAME COMMAND..: runs a command under a name. The script ends if it fails.
step() {
    current_step=$1
    local started=$SECONDS
    printf '\n==> %s\n' "$current_step"
    shift
    "$@"
    finished "$current_step" $((SECONDS - started))
    current_step=
}

# finished NAME SECONDS: for the summary.
finished() {
    step_names+=("$1")
    step_times+=("$2")
    printf -- '--- %s: %s\n' "$1" "$(clock "$2")"
}

# lane NICENESS FUNCTION..: starts steps in the background, one after the other. What they print is kept for `join`.
lane() {
    lane_steps+=("${@:2}")
    # A process group of its own, so that it can be ended with everything that it started.
    set -m
    in_lane "$@" </dev/null &
    set +m
    lane_processes+=($!)
}

in_lane() {
    local name started
    trap 'printf "... %s has failed\n" "$current_step"' EXIT
    renice -n $(($(nice) + $1)) -p "$BASHPID" >/dev/null
    for name in "${@:2}"; do
        current_step=$name
        started=$SECONDS
        "$name" >"$logs/$name" 2>&1
        printf '%d' $((SECONDS - started)) >"$logs/$name.seconds"
        printf '... %s has passed\n' "$name"
    done
    trap - EXIT
}

# join: waits for every lane. The script ends if a step of one failed, after the others have ended.
join() {
    local process name all_ended=1 failed=()
    for process in "${lane_processes[@]}"; do
        wait "$process" || all_ended=0
    done
    lane_processes=()
    for name in "${lane_steps[@]}"; do
        if [[ -e $logs/$name ]]; then
            printf '\n==> %s\n' "$name"
            cat -- "$logs/$name"
        fi
        if [[ -e $logs/$name.seconds ]]; then
            finished "$name" "$(<"$logs/$name.seconds")"
        elif [[ -e $logs/$name ]]; then
            failed+=("$name")
        fi
    done
    lane_steps=()
    # A lane can also fail before its first step, or between two.
    if ((${#failed[@]} > 0 || !all_ended)); then
        current_step="${failed[*]:-a lane}"
        return 1
    fi
}

# start_servers BINARY: starts it. It prints variables that tell tests about its servers, which `await_servers` reads.
# They end when its input is closed, which only this shell holds: at the latest with the shell, even if that is killed.
start_servers() {
    coproc servers { exec "$1"; }
    # A copy, which lanes can read from too.
    exec {servers_output}<&"${servers[0]}"
}

# await_servers COUNT: waits until so many servers more have started, and exports their variables.
await_servers() {
    local variable count
    for ((count = 0; count < $1; count++)); do
        read -r variable <&"$servers_output"
        printf '%s\n' "$variable"
        export "${variable?}"
    done
}

# end_servers: waits until they are gone.
end_servers() {
    local process=${servers_PID:-}
    if [[ -n $process ]]; then
        exec {servers[1]}>&-
        wait "$process" || true
    fi
}

# note TEXT: a line below the summary, for what was left out.
note() {
    printf '%s\n' "$1" | tee -a "$logs/notes"
}

# Called on exit, whatever the reason.
report() {
    local status=$? process
    for process in "${lane_processes[@]}"; do
        kill -- "-$process" 2>/dev/null || true
    done
    end_servers
    if ((status != 0)); then
        printf '\n%s: FAILED in step "%s" after %s, exit status %d\n' \
            "$script" "${current_step:-start}" "$(clock "$SECONDS")" "$status"
    fi
    rm -r -- "$logs"
}
trap report EXIT

summary() {
    printf '\n%-34s %7s\n' step time
    local index
    for index in "${!step_names[@]}"; do
        printf '%-34s %7s\n' "${step_names[index]}" "$(clock "${step_times[index]}")"
    done
    if [[ -e $logs/notes ]]; then
        printf '\n'
        cat -- "$logs/notes"
    fi
    printf '%s: PASSED (steps: %d, time: %s)\n' "$script" "${#step_names[@]}" "$(clock "$SECONDS")"
}

# clock SECONDS: as minutes and seconds.
clock() {
    printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}

# is_installed BINARY: in PATH, or where Debian has servers.
is_installed() {
    command -v "$1" >/dev/null || compgen -G "/usr/sbin/$1" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null
}

# need_package BINARY PACKAGE: installs a Debian package if its binary is missing and this user may.
need_package() {
    local binary=$1 package=$2
    if is_installed "$binary"; then
        return
    fi
    printf '%s is missing: installing the Debian package %s\n' "$binary" "$package"
    if ! command -v apt-get >/dev/null; then
        printf 'there is no apt-get here\nhelp: install whatever provides `%s`\n' "$binary"
        return 1
    elif ((EUID == 0)); then
        sh -c "$install" install "$package"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n sh -c "$install" install "$package"
    else
        printf 'it cannot be installed without root\nhelp: sudo apt-get install %s\n' "$package"
        return 1
    fi
}

# Installs a package as root. While policy-rc.d exits with 101, packages start no services.
install='
set -e
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap "rm -f $policy" EXIT
    trap "exit 1" HUP INT TERM
    printf "#!/bin/sh\nexit 101\n" >"$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install --yes --no-install-recommends "$1"
'

# need_databases: the servers of the tests of SQL stores.
need_databases() {
    need_package postgres postgresql
    need_package mariadbd mariadb-server
}

# need_brokers: those of the tests of consumers and producers.
need_brokers() {
    need_package rabbitmq-server rabbitmq-server
    need_package nats-server nats-server
}

# need_cargo_tool NAME VERSION WHY: installs a cargo subcommand if it is missing.
need_cargo_tool() {
    local name=$1 version=$2 why=$3
    if command -v "$name" >/dev/null || [[ -x ${CARGO_HOME:-$HOME/.cargo}/bin/$name ]]; then
        return
    fi
    printf '%s is missing: installing version %s; %s\n' "$name" "$version" "$why"
    cargo install "$name" --locked --version "$version"
}

# need_rust: the toolchain that rust-toolchain.toml names, and a linker.
need_rust() {
    if ! command -v cargo >/dev/null; then
        printf 'cargo is missing\nhelp: install Rust with rustup\n'
        return 1
    fi
    need_package cc build-essential
    cargo --version
    cargo clippy --version
    cargo fmt --version
}

# metadata: what cargo knows about the workspace, as one line of JSON.
metadata() {
    cargo metadata --no-deps --format-version 1
}

target_directory() {
    metadata | grep -oE '"target_directory":"[^"]*"' | cut -d '"' -f 4
}
