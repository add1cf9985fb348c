package host

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// reap waits for the process, ends what is left of its group while its id still names it, and releases the id.
func (p *process) reap() error {
	for errors.Is(unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signalGroup()
	p.reaped = true
	return p.cmd.Wait()
}
