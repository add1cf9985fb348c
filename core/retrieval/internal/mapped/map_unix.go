//go:build unix

package mapped

import (
	"os"
	"syscall"
)

func mapFile(file *os.File, size int64) ([]byte, func(), error) {
	data, err := syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return data, func() { _ = syscall.Munmap(data) }, nil
}
