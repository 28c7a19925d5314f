#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks what the compiler does not: which folder may include which, which file
# may see a library, and how long files and functions may be.
#
# Prints "file:line: what is wrong" for each and exits with 1.
# usage: tests/check_layers.sh                 (SOURCE_DIR: the tree to check)
set -u

cd "${SOURCE_DIR:-$(dirname "$0")/..}" || exit 1
mapfile -t files < <(find util cache net prep fs analyze tests \
    \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) 2>/dev/null | sort)
if [ ${#files[@]} -eq 0 ]; then
    echo "check_layers.sh: no sources in $PWD" >&2
    exit 1
fi

awk '
BEGIN {
    rank["util"] = 1
    rank["cache"] = rank["net"] = rank["prep"] = 2
    rank["fs"] = rank["analyze"] = 3

    # A header of a library, and the only files that may include it.
    only["^rocksdb/"] = "^cache/store[.]c$"
    only["^(fuse|fuse3/.*|fuse_.*)[.]h$"] = "^(fs|tests)/"
    only["^xxhash[.]h$"] = "^util/hash[.]c$"
    only["^ini[.]h$"] = "^util/config[^/]*[.]c$"
    only["^jansson[.]h$"] = "^fs/"
    only["^systemd/"] = "^fs/"
}

function report(line, what)
{
    printf "%s:%d: %s\n", FILENAME, line, what
    bad = 1
}

# The line after the last one of the file that is read at the moment.
function end_of_file()
{
    if (lines > limit)
        printf "%s:%d: %d lines, at most %d\n", name, lines, lines, limit
    bad = bad || lines > limit
}

function check_project_header(header,    target)
{
    target = header
    sub("/.*", "", target)
    if (folder == "tests")
        return
    if (!(target in rank) || header !~ "^[a-z]+/[^/]+$")
        report(FNR, "include \"folder/file.h\", written from the root")
    else if (target != folder && rank[target] >= rank[folder])
        report(FNR, folder "/ must not include " target "/")
    if (!includes++ && (own in known) && header != own)
        report(FNR, "include " own " first")
}

function check_library_header(header,    pattern, target)
{
    target = header
    sub("/.*", "", target)
    if (target in rank)
        report(FNR, "include our own headers with quotes")
    for (pattern in only)
        if (header ~ pattern && FILENAME !~ only[pattern])
            report(FNR, "<" header "> is visible in " only[pattern] " alone")
}

NR == 1 {
    for (i = 1; i < ARGC; i++)
        known[ARGV[i]]
}

FNR == 1 {
    if (NR > 1)
        end_of_file()
    name = own = folder = FILENAME
    sub("/.*", "", folder)
    if (!sub("[.]c$", ".h", own))
        own = ""
    limit = FILENAME ~ /[.]h$/ ? 150 : 600
    includes = start = 0
    if ($0 !~ /SPDX-License-Identifier: Apache-2[.]0/)
        report(1, "begin with the SPDX line")
}

{ lines = FNR }

/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    check_project_header(part[2])
}

/^[ \t]*#[ \t]*include[ \t]*</ {
    split($0, part, "[<>]")
    check_library_header(part[2])
}

/^{/ { start = FNR }

/^}/ {
    if (start && FNR - start + 1 > 70)
        report(start, "function of " FNR - start + 1 " lines, at most 70")
    start = 0
}

END {
    if (NR)
        end_of_file()
    exit bad
}' "${files[@]}"
