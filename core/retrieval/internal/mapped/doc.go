// Package mapped owns the file layout of retrieval artefacts: named sections of plain little-endian arrays behind a
// checked header, written as a stream and read through a memory map. It must not know what the sections mean.
//
// Layout, all integers little-endian:
//
//	0   magic    8 bytes  "FORAGE\r\n" (the line end shows a transfer in text mode)
//	8   kind     8 bytes  name of the content, zero padded
//	16  version  uint32   of the content
//	20  sections uint32
//	24  size     uint64   of the whole file
//	32  digest   32 bytes of whatever the content was made from
//	64  table    40 bytes a section: name [16], offset uint64, length uint64, crc32c uint32, flags uint32
//	..  crc32c   uint32   of everything before it
//
// Sections start at multiples of 64 bytes and do not overlap. A file is read only if its size, the header's sum and
// the sums of all sections (but those flagged as bulk) agree, so a half-written or damaged file is never used.
package mapped
