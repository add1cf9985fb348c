// Package mappedtest helps to fuzz what lies behind the sums of an artefact file.
package mappedtest

import (
	"encoding/binary"
	"hash/crc32"
)

// Resum makes the size and sums of a changed artefact right again, in place, where its table can be read.
func Resum(data []byte) {
	table := crc32.MakeTable(crc32.Castagnoli)
	if len(data) < 64 {
		return
	}
	binary.LittleEndian.PutUint64(data[24:], uint64(len(data)))
	count := int(binary.LittleEndian.Uint32(data[20:]))
	end := 64 + 40*count
	if count > 64 || len(data) < end+4 {
		return
	}
	for i := range count {
		row := data[64+40*i:]
		offset, length := binary.LittleEndian.Uint64(row[16:]), binary.LittleEndian.Uint64(row[24:])
		if offset <= uint64(len(data)) && length <= uint64(len(data))-offset {
			binary.LittleEndian.PutUint32(row[32:], crc32.Checksum(data[offset:offset+length], table))
		}
	}
	binary.LittleEndian.PutUint32(data[end:], crc32.Checksum(data[:end], table))
}
