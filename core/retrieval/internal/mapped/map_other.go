//go:build !unix

package mapped

import (
	"io"
	"os"
)

// mapFile reads the file: this system has no memory map that the standard library offers.
func mapFile(file *os.File, size int64) ([]byte, func(), error) {
	data := make([]byte, size)
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, nil, err
	}
	return data, func() {}, nil
}
