package main

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// startAndWait starts a command and reads its output up to a line that holds mark. The result reads the rest, waits for
// the end and gives all lines.
func startAndWait(t *testing.T, cmd *exec.Cmd, mark string) func() string {
	t.Helper()
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its code is read from the state
		write.Close()
	}()
	var seen strings.Builder
	lines := bufio.NewScanner(read)
	found := false
	for !found && lines.Scan() {
		seen.WriteString(lines.Text() + "\n")
		found = strings.Contains(lines.Text(), mark)
	}
	if !found {
		t.Fatalf("it ended without a line with %q:\n%s", mark, seen.String())
	}
	return func() string {
		for lines.Scan() {
			seen.WriteString(lines.Text() + "\n")
		}
		return seen.String()
	}
}
