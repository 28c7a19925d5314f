#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Everything that a change must pass: builds with gcc and clang and with the
# sanitizers, linters, all tests, the quickstart; and that the tests leave no
# mount, process, namespace, cgroup or file behind.
#
# usage: tests/run.sh [--quick] [--long]
#   --quick   the gcc build and its tests only
#   --long    the tests at full size (millions of files; takes hours)
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
builds=$root/build
jobs=$(nproc)
quick=
long=0
timeout_s=600
failed=0
summary=
closing=

# Prints and counts one result.
result()
{
    local name=$1 error=$2 seconds=$3 word=ok
    if [ "$error" != 0 ]; then
        word=FAILED
        failed=$((failed + 1))
    fi
    summary+=$(printf '  %-22s %-7s %4d s' "$name" $word "$seconds")$'\n'
    return "$error"
}

# step NAME COMMAND...: shows what the command says only when it fails.
step()
{
    local name=$1 start=$SECONDS error
    shift
    printf '== %s\n' "$name"
    "$@" >"$work/step.log" 2>&1 </dev/null
    error=$?
    [ $error = 0 ] || tail -n 60 "$work/step.log"
    result "$name" $error $((SECONDS - start))
}

# build NAME COMPILER OPTION...
build()
{
    local tree=$builds/$1 compiler=$2
    shift 2
    cmake -S "$root" -B "$tree" -DCMAKE_C_COMPILER="$compiler" \
        -DWERROR=ON -DTEST_TIMEOUT=$timeout_s "$@" &&
        cmake --build "$tree" -j "$jobs"
}

# run_tests NAME CTEST-OPTION...: any report of a sanitizer is a failure, also
# one of a process in the background that no test waited for.
run_tests()
{
    local name=$1 start=$SECONDS error report
    shift
    printf '== tests: %s\n' "$name"
    rm -rf "$reports"
    mkdir -p "$reports"
    # Sanitizers of this age know fewer address bits than new kernels use.
    COORDLFS_LONG=$long "${no_randomization[@]}" ctest --test-dir "$builds/$name" \
        --output-on-failure --no-tests=error -j "$jobs" "$@" </dev/null 2>&1 |
        tee "$work/ctest.log"
    error=${PIPESTATUS[0]}
    for report in "$reports"/*; do
        [ -e "$report" ] || continue
        printf '%s\n' "-- $(basename "$report")" "$(head -n 80 "$report")"
        error=1
    done
    closing="$name:"$'\n'$(sed -n '/^[0-9]*% tests passed/,$p' \
        "$work/ctest.log")$'\n'$closing
    result "tests: $name" "$error" $((SECONDS - start))
}

check_format()
{
    find "${source_folders[@]}" -name '*.[ch]' -print0 |
        xargs -0 clang-format --dry-run --Werror
}

check_cppcheck()
{
    # It looks for no headers of libraries, so it is told of those with loops.
    cppcheck -q -j "$jobs" --enable=warning,performance,portability \
        --include=/usr/include/jansson.h --suppress='*:/usr/include/*' \
        --inline-suppr --std=c11 --error-exitcode=1 -D_GNU_SOURCE -I "$root" \
        --suppress=missingIncludeSystem "${product_folders[@]}"
}

check_tidy()
{
    find "${product_folders[@]}" -name '*.c' -print0 |
        xargs -0 -n 2 -P "$jobs" clang-tidy --quiet -p "$builds/clang"
}

# Lines "mount PATH", "file PATH", "namespace NAME", "cgroup PATH": what is
# there that the tests may have made. They keep to $TMPDIR; a cgroup bears the
# process id of its test, which has ended if it was one of ours.
list_things()
{
    local path pid
    awk -v top="$TMPDIR/" 'index($5, top) == 1 { print "mount", $5 }' \
        /proc/self/mountinfo
    find "$TMPDIR" -mindepth 1 -maxdepth 1 -printf 'file %p\n'
    ip netns list 2>/dev/null | awk '/^clfs/ { print "namespace", $1 }'
    find /sys/fs/cgroup -type d -name 'coordlfs-test-*' 2>/dev/null |
        while read -r path; do
            pid=${path##*/coordlfs-test-}
            [ -d "/proc/${pid%%-*}" ] || echo "cgroup $path"
        done
}

# Lines "process PID NAME" of what the tests started: they all inherit a mark.
list_processes()
{
    local folder pid
    for folder in /proc/[0-9]*; do
        pid=${folder#/proc/}
        ! timeout 2 grep -qz "^TEST_RUN_MARK=$mark\$" "$folder/environ" ||
            echo "process $pid $(cat "$folder/comm")"
    done 2>/dev/null
}

list_left()
{
    # The helpers of this very listing do not bear the mark.
    TEST_RUN_MARK='' list_processes
    list_things | grep -vxFf "$work/before"
}

remove_left()
{
    local left kind name
    left=$(list_left)
    [ -n "$left" ] || return 0
    while read -r kind name; do
        case $kind in
        process) kill -9 "${name%% *}" ;;
        mount) umount -l "$(printf '%b' "$name")" ;;
        namespace) ip netns del "$name" ;;
        esac
    done <<<"$left"
    # What follows is free only now.
    sleep 1
    while read -r kind name; do
        case $kind in
        cgroup) rmdir "$name" ;;
        file) rm -rf --one-file-system "$name" ;;
        esac
    done < <(sort -r <<<"$left")
}

# What the tests left is a failure, and is removed.
check_left()
{
    local left tries=0
    while left=$(list_left) && [ -n "$left" ] && [ $tries -lt 6 ]; do
        tries=$((tries + 1))
        sleep 0.5
    done
    [ -n "$left" ] || return 0
    echo "left behind by the tests:"
    echo "$left"
    remove_left
    return 1
}

clean_up()
{
    trap - EXIT
    remove_left
    rm -rf --one-file-system "$work"
}

parse_arguments()
{
    local argument
    for argument in "$@"; do
        case $argument in
        --quick) quick=yes ;;
        --long)
            long=1
            timeout_s=14400
            ;;
        *)
            sed -n '/^# usage/,/^set/{/^#/s/^# \?//p}' "$0" >&2
            exit 2
            ;;
        esac
    done
}

prepare()
{
    [ "$(id -u)" = 0 ] || {
        echo "run.sh: the tests mount file systems: run as root" >&2
        exit 1
    }
    cd "$root" && "$root/deploy/packages.sh" build run test || exit 1
    work=$(mktemp -d /var/tmp/coordlfs-run.XXXXXX) || exit 1
    reports=$work/reports
    mark=$$-$RANDOM
    export TMPDIR=$work/tmp TEST_RUN_MARK=$mark
    mkdir "$TMPDIR"
    # Tests have readers who are not root.
    chmod 755 "$work" "$TMPDIR"
    list_things >"$work/before"
    # An empty pattern file would match nothing, an empty line everything.
    echo none >>"$work/before"
    trap clean_up EXIT
    trap 'exit 130' INT TERM HUP

    product_folders=()
    for folder in util cache net prep fs analyze; do
        [ ! -d $folder ] || product_folders+=("$folder")
    done
    source_folders=("${product_folders[@]}" tests)
    no_randomization=()
    ! setarch -R true 2>/dev/null || no_randomization=(setarch -R)
    export ASAN_OPTIONS=log_path=$reports/asan
    export UBSAN_OPTIONS=log_path=$reports/ubsan:print_stacktrace=1
    LSAN_OPTIONS=suppressions=$root/tests/lsan.supp:print_suppressions=0
    TSAN_OPTIONS=suppressions=$root/tests/tsan.supp:log_path=$reports/tsan
    export LSAN_OPTIONS TSAN_OPTIONS
}

# Where they cannot be fetched the test that reads with them says so, and does
# the rest.
make_venv()
{
    local start=$SECONDS
    if tests/venv.sh >/dev/null 2>"$work/venv.log"; then
        result "python packages" 0 $((SECONDS - start))
    else
        cat "$work/venv.log"
    fi
}

run_all()
{
    make_venv
    if step "build: gcc" build gcc gcc; then
        run_tests gcc
    fi
    [ -z "$quick" ] || return
    if step "build: clang" build clang clang; then
        step "clang-tidy" check_tidy
    fi
    step "clang-format" check_format
    step "cppcheck" check_cppcheck
    if step "build: asan" build asan gcc -DSANITIZE=address \
        -DTEST_TIMEOUT=$((2 * timeout_s)); then
        run_tests asan
    fi
    if step "build: tsan" build tsan gcc -DSANITIZE=thread \
        -DTEST_TIMEOUT=$((2 * timeout_s)); then
        run_tests tsan -R '^integration/kill$'
    fi
    step "quickstart" deploy/quickstart.sh --under "$work/quickstart"
    rm -rf --one-file-system "$work/quickstart"
}

parse_arguments "$@"
prepare
run_all
step "nothing left behind" check_left
printf '\n%s' "$summary"
printf '\n%s' "$closing"
[ $failed = 0 ] || echo "$failed steps FAILED"
[ $failed = 0 ]
