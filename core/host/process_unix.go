//go:build unix

package host

import (
	"errors"
	"syscall"
)

// kill ends the process and its whole group.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		p.signalGroup()
	}
}

func (p *process) signalGroup() {
	// ESRCH means that all of it has ended.
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

func processGone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }
