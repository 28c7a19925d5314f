#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the sample dataset of the quickstart: 2,100 JPEGs in 25 class folders,
# about 200 MB, cut from photographs that Debian carries. Does nothing when it
# is complete; what it holds is written to DIR.complete, beside the dataset.
#
# usage: deploy/sample_dataset.sh [DIR]           (/var/lib/coordlfs/sample)
set -u

here=$(cd "$(dirname "$0")" && pwd)
dataset=${1:-/var/lib/coordlfs/sample}
dataset=${dataset%/}
marker=$dataset.complete
partial=$dataset.partial

fail()
{
    echo "sample_dataset.sh: $*" >&2
    exit 1
}

[ -e "$marker" ] && [ -d "$dataset" ] && exit 0
[ ! -e "$dataset" ] ||
    fail "$dataset is there but was not made by this script;" \
        "remove it or name another folder"

"$here/packages.sh" run || exit 1
rm -rf "$partial"
mkdir -p "$partial" || exit 1
trap 'rm -rf "$partial"' EXIT
echo "cutting the sample dataset $dataset (less than a minute)"
summary=$(/usr/bin/python3 "$here/sample_dataset.py" "$partial") ||
    fail "the sample dataset could not be made"
mv "$partial" "$dataset" && echo "$summary" >"$marker" || exit 1
echo "sample dataset: $summary"
