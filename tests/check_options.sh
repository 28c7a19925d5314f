#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Help, manual, completion, sample file and README's table of options are all
# printed by the program, from its tables: what lies in the tree must be what
# it prints. In detail, that help and sample file have the same options with
# the same defaults; and that manual and completion are sound.
# usage: check_options.sh PATH-OF-COORDLFS
#        check_options.sh PATH-OF-COORDLFS update     (writes the files anew)
set -eu

binary=${1:?usage: check_options.sh PATH-OF-COORDLFS}
top=$(cd "$(dirname "$0")/.." && pwd)
sample=$top/deploy/coordlfs.conf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# README.md with the program's table between its two markers.
readme() {
    "$binary" help --markdown >"$work/table"
    awk -v table="$work/table" '
        /^<!-- end of options -->/ { inside = 0 }
        !inside { print }
        /^<!-- options: / {
            inside = 1
            while ((getline line < table) > 0)
                print line
        }' "$top/README.md"
}

"$binary" help --sample >"$work/coordlfs.conf"
"$binary" help --man >"$work/coordlfs.8"
"$binary" help --completion >"$work/coordlfs"
readme >"$work/README.md"
if [ "${2:-}" = update ]; then
    cp "$work/coordlfs.conf" "$work/coordlfs.8" "$top/deploy/"
    cp "$work/coordlfs" "$top/deploy/completion/"
    cp "$work/README.md" "$top/"
fi
for pair in coordlfs.conf:deploy/coordlfs.conf coordlfs.8:deploy/coordlfs.8 \
    coordlfs:deploy/completion/coordlfs README.md:README.md; do
    if ! diff "$work/${pair%%:*}" "$top/${pair#*:}"; then
        echo "< $binary prints, > $top/${pair#*:} has; update it with"
        echo "tests/check_options.sh $binary update"
        exit 1
    fi
done
if ! grep -q '^<!-- options: ' "$top/README.md"; then
    echo "README.md has no marker of the table of options"
    exit 1
fi

# ---- help ----

"$binary" help | awk '/^  coordlfs / { print $2 }' >"$work/commands"
for command in "" $(cat "$work/commands"); do
    # shellcheck disable=SC2086
    "$binary" help $command >"$work/text"
    if awk 'length($0) > 80 { print "too wide: " $0; wide = 1 }
            END { exit !wide }' "$work/text" ||
        LC_ALL=C grep -n '[^ -~]' "$work/text"; then
        exit 1
    fi
done

# "name default" of each option; its text may go over several lines.
"$binary" help mount >"$work/text"
awk 'function flush_option() {
         if (name == "")
             return
         if (!match(text, /\(default: [^)]*\)/))
             print name " has no default"
         else
             print name " " substr(text, RSTART + 10, RLENGTH - 11)
         name = ""
     }
     /^  --/ { flush_option(); name = substr($1, 3); text = "" }
     /^[^ ]/ || /^$/ { flush_option() }
     name != "" { sub(/^ +/, ""); text = text " " $0 }
     END { flush_option() }' "$work/text" | sort >"$work/help"

awk '/^#[a-z][a-z-]* =/ {
         name = substr($1, 2)
         sub(/^#[a-z-]* = ?/, "")
         print name " " ($0 == "" ? "none" : $0)
     }
     /^# --[a-z-]* \(default: / {
         name = substr($2, 3)
         sub(/^.*\(default: /, "")
         sub(/\)$/, "")
         print name " " $0
     }' "$sample" | sort >"$work/sample"

if ! [ -s "$work/help" ]; then
    echo "no options found in: $binary help mount"
    exit 1
fi
if ! diff "$work/help" "$work/sample"; then
    echo "< $binary help mount"
    echo "> $sample"
    exit 1
fi

# ---- manual and completion ----

while read -r command; do
    grep -q "^\.SS $command\$" "$work/coordlfs.8" || {
        echo "the manual lacks the command $command"
        exit 1
    }
done <"$work/commands"
if command -v man >/dev/null; then
    LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$work/coordlfs.8" \
        >"$work/page" 2>"$work/warnings"
    if [ -s "$work/warnings" ]; then
        cat "$work/warnings"
        exit 1
    fi
fi

# complete WORD...: what the last word of a command line is completed to.
cat >"$work/complete" <<'BASH'
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_coordlfs
printf '%s\n' "${COMPREPLY[@]}"
BASH
expect() {
    wanted=$1
    shift
    got=$(cd "$work" && bash "$work/complete" "$work/coordlfs" coordlfs "$@" |
        sort | tr '\n' ' ')
    if [ "$got" != "$wanted " ]; then
        echo "coordlfs $*: completed to '$got', expected '$wanted '"
        exit 1
    fi
}
mkdir "$work/dataset" "$work/data two"
expect "stats status" sta
expect "umount" um
expect "--force --help" umount --
expect "--check" warm --c
expect "--check" warmup --ch
expect "--cache-dir --cache-id --check-config --config" mount --c
expect "data two dataset" mount da
expect "data two dataset" mount --cache-dir da
expect "debug" mount --log-level d
expect "auto" mount --dram a
expect "refresh" help ref
expect "" version x
echo "$(wc -l <"$work/help") options and $(wc -l <"$work/commands") commands" \
    "agree"
