package sdk

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardStdout keeps standard output for the handshake: what C code or another print writes to descriptor 1 goes to
// standard error from now on.
func guardStdout() error {
	saved, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return err
	}
	os.Stdout = os.NewFile(uintptr(saved), "handshake")
	return nil
}

// killGroup ends all processes of the group that this process leads.
func killGroup() {
	if syscall.Getpgrp() == os.Getpid() {
		// It ends this process too, so there is nobody to read the error.
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
}
