#!/bin/sh
# Compares the HNSW index with hnswlib on the same vectors. Needs g++ and hnswlib's header: FORAGE_HNSWLIB names the folder
# that holds hnswlib/hnswlib.h; without it the package of Debian or Ubuntu is fetched into a temporary folder.
set -eu
cd "$(dirname "$0")"
if [ -z "${FORAGE_HNSWLIB:-}" ]; then
	if [ -f /usr/include/hnswlib/hnswlib.h ]; then
		FORAGE_HNSWLIB=/usr/include
	else
		folder=$(mktemp -d)
		trap 'rm -rf "$folder"' EXIT
		(cd "$folder" && apt-get download libhnswlib-dev && dpkg -x libhnswlib-dev_*.deb .)
		FORAGE_HNSWLIB=$folder/usr/include
	fi
fi
export FORAGE_HNSWLIB GOEXPERIMENT="${GOEXPERIMENT:-simd}"
go test ./index -run '^$' -bench 'HNSW|BM25' -benchtime 3x "$@"
