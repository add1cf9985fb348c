//go:build unix && !linux

package host

import "syscall"

func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the process. Here it cannot be awaited without releasing its id, so children that it leaves behind
// are ended only by kill.
func (p *process) reap() error {
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return err
}
