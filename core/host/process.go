package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
)

// process is a child in a process group of its own. Its whole group ends with it.
type process struct {
	cmd    *exec.Cmd
	stdout *os.File // read ends
	stderr *os.File
	exited chan struct{} // closed when the process is reaped and its group killed
	state  string        // exit status in words, once exited is closed

	mu     sync.Mutex // held while reaping, so that kill never signals a reused id
	reaped bool
}

// startProcess starts cmd and takes over its output. The caller reads both streams to their ends.
func startProcess(cmd *exec.Cmd) (*process, error) {
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, outRead.Close(), outWrite.Close())
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = nil, outWrite, errWrite
	cmd.SysProcAttr = processAttributes()
	p := &process{cmd: cmd, stdout: outRead, stderr: errRead, exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent-death signal fires when the thread that started the child ends: keep this one until the child has.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		err = p.reap()
		p.state = cmd.ProcessState.String()
		if cmd.ProcessState == nil {
			p.state = fmt.Sprint(err)
		}
		close(p.exited)
	}()
	err = <-started
	closeErr := errors.Join(outWrite.Close(), errWrite.Close())
	if err != nil {
		return nil, errors.Join(err, outRead.Close(), errRead.Close())
	}
	return p, closeErr
}

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailBytes = 64 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, b...)
	if len(t.data) > 2*tailBytes {
		t.data = append([]byte(nil), t.data[len(t.data)-tailBytes:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.data[max(0, len(t.data)-tailBytes):]))
}

// lastLines is the end of a text, for error messages.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// pluginEnv is the environment that a plugin gets: a few harmless variables and what the experiment adds.
func pluginEnv(lookup func(string) string, extra map[string]string) []string {
	var env []string
	for _, key := range []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ"} {
		if v := lookup(key); v != "" {
			env = append(env, key+"="+v)
		}
	}
	for k, v := range extra {
		env = append(env, k+"="+v)
	}
	return env
}
