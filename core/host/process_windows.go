package host

import "syscall"

func processAttributes() *syscall.SysProcAttr { return nil }

// kill ends the process. Its children are not in a group here and end by themselves or not at all.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		// It fails only when the process has ended meanwhile.
		_ = p.cmd.Process.Kill()
	}
}

func (p *process) reap() error {
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	return err
}

// processGone does not know here, so old socket folders stay.
func processGone(int) bool { return false }
