package endpoint

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Cache keeps answers by the digest of their requests in a file of JSON lines, so that work that goes on after an
// interruption gets the answers that it got before. It is for one process, and within it for many goroutines. A nil
// cache keeps nothing.
type Cache struct {
	mu      sync.Mutex
	file    *os.File
	answers map[string]Answer
}

// cached is a line of the file.
type cached struct {
	Request string `json:"request"`
	Answer
}

// OpenCache opens the file of answers, and makes it with its folder where there is none. A last line that was not
// written whole is dropped; any other line that cannot be read is an error.
func OpenCache(path string) (*Cache, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("answers of an endpoint: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("answers of an endpoint: %w", err)
	}
	c := &Cache{file: file, answers: map[string]Answer{}}
	if err := c.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("answers of an endpoint: %w", err), file.Close())
	}
	return c, nil
}

func (c *Cache) load() error {
	in := bufio.NewReader(c.file)
	var whole int64
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what is left has no line end: it was not written whole
		}
		if err != nil {
			return err
		}
		var entry cached
		if err := json.Unmarshal(bytes.TrimSpace(line), &entry); err != nil || entry.Request == "" {
			return fmt.Errorf("%s:%d: not a line of answers; remove the file to ask again", c.file.Name(), number)
		}
		c.answers[entry.Request] = entry.Answer
		whole += int64(len(line))
	}
	if err := c.file.Truncate(whole); err != nil {
		return err
	}
	_, err := c.file.Seek(whole, io.SeekStart)
	return err
}

func (c *Cache) get(digest string) (Answer, bool) {
	if c == nil {
		return Answer{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.answers[digest]
	return a, ok
}

// put keeps an answer. It gives the one that was kept first, if the same request was under way twice.
func (c *Cache) put(digest string, a Answer) (Answer, error) {
	if c == nil {
		return a, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if have, ok := c.answers[digest]; ok {
		return have, nil
	}
	line, err := json.Marshal(cached{digest, a})
	if err != nil {
		return a, fmt.Errorf("keep an answer: %w", err)
	}
	if _, err := c.file.Write(append(line, '\n')); err != nil {
		return a, fmt.Errorf("keep an answer: %w", err)
	}
	c.answers[digest] = a
	return a, nil
}

// Len is the number of answers that are kept.
func (c *Cache) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.answers)
}

// Close closes the file.
func (c *Cache) Close() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.file.Sync(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return errors.Join(err, c.file.Close())
	}
	return c.file.Close()
}

func digestOf(url string, body []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", url)
	sum.Write(body)
	return hex.EncodeToString(sum.Sum(nil))
}
