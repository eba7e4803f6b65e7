# What scripts/test and scripts/test-long share: named steps with times, and tools that are
# installed when they are missing. To be sourced; changes to the root of the repository.

set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

script=scripts/$(basename -- "$0")
current_step=
step_names=()
step_times=()

# No debug info beyond line numbers and no incremental state: nothing here is debugged or rebuilt.
export CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_DEBUG=line-tables-only
export CARGO_PROFILE_TEST_DEBUG=line-tables-only

# step NAME COMMAND..: runs a command under a name. The script ends if it fails.
step() {
    current_step=$1
    local started=$SECONDS
    printf '\n==> %s\n' "$current_step"
    shift
    "$@"
    local took=$((SECONDS - started))
    step_names+=("$current_step")
    step_times+=("$took")
    printf -- '--- %s: %s\n' "$current_step" "$(clock "$took")"
    current_step=
}

# Called on exit, whatever the reason.
report() {
    local status=$?
    if ((status != 0)); then
        printf '\n%s: FAILED in step "%s" after %s, exit status %d\n' \
            "$script" "${current_step:-start}" "$(clock "$SECONDS")" "$status"
    fi
}
trap report EXIT

summary() {
    printf '\n%-34s %7s\n' step time
    local index
    for index in "${!step_names[@]}"; do
        printf '%-34s %7s\n' "${step_names[index]}" "$(clock "${step_times[index]}")"
    done
    printf '%s: PASSED (steps: %d, time: %s)\n' "$script" "${#step_names[@]}" "$(clock "$SECONDS")"
}

# clock SECONDS: as minutes and seconds.
clock() {
    printf '%d:%02d' $(($1 / 60)) $(($1 % 60))
}

# need_package BINARY PACKAGE: installs a Debian package if its binary is missing and this user may.
need_package() {
    local binary=$1 package=$2 apt=(apt-get install --yes --no-install-recommends "$2")
    if command -v "$binary" >/dev/null; then
        return
    fi
    printf '%s is missing: installing the Debian package %s\n' "$binary" "$package"
    if ! command -v apt-get >/dev/null; then
        printf 'there is no apt-get here\nhelp: install whatever provides `%s`\n' "$binary"
        return 1
    elif ((EUID == 0)); then
        apt-get update
        DEBIAN_FRONTEND=noninteractive "${apt[@]}"
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n apt-get update
        sudo -n DEBIAN_FRONTEND=noninteractive "${apt[@]}"
    else
        printf 'it cannot be installed without root\nhelp: sudo apt-get install %s\n' "$package"
        return 1
    fi
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
