package corpus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forage-rl/forage/core/retrieval/internal/mapped"
	"github.com/forage-rl/forage/core/retrieval/internal/store"
)

// mapFrom is the size of the sources, in bytes, from which a corpus is parsed once into a file and mapped.
const mapFrom = 16 << 20

// Options of [Open]. The zero value is valid.
type Options struct {
	// CacheDir is where the parsed form of big corpora is kept, addressed by the digest of their sources. Empty: every
	// corpus is parsed into memory.
	CacheDir string
	// MapFrom overrides the size in bytes from which CacheDir is used; 0 means 16 MiB.
	MapFrom int64
	// Limit keeps the first documents; 0 means all. Fewer in the sources are an error.
	Limit int
	// Progress, if not nil, is told after each source file how many bytes of all have been read.
	Progress func(done, total int64)
}

// Open reads one corpus from several files and folders, in the order of the list: of a folder all files (not those of its
// subfolders) in the order of their names.
//
// Formats: JSON Lines (.jsonl, .ndjson, .json), a JSON list (.json), both also as .gz or .zst, and Parquet (.parquet). A
// record is a document, {id, contents} as in wiki-18 (contents is a title line, then the text), {id, title, text},
// {title, sentences}, {id, title, paragraphs}, or a question, whose "context" (or "contexts", or MuSiQue's
// "paragraphs") holds documents. A text is cut into paragraphs at its blank lines; a passage of a question is one
// paragraph. Other files of a folder are passed over. Errors name file and line.
func Open(ctx context.Context, paths []string, options Options) (*Corpus, error) {
	var files []string
	var total int64
	for _, path := range paths {
		more, size, err := sources(path)
		if err != nil {
			return nil, err
		}
		files, total = append(files, more...), total+size
	}
	if len(files) == 0 {
		return nil, errors.New("open the corpus: no path given")
	}
	if options.CacheDir == "" || total < cmp.Or(options.MapFrom, mapFrom) {
		return parseToMemory(ctx, files, total, options)
	}
	digest, err := digestOf(ctx, files, options)
	if err != nil {
		return nil, err
	}
	name := "corpus-" + digest[:32] + ".forage"
	build := func(file *os.File) error {
		b := newBuilder(file)
		if err := b.readAll(ctx, files, total, options); err != nil {
			return err
		}
		return b.finish()
	}
	for attempt := 0; ; attempt++ {
		cached, err := store.Ensure(ctx, options.CacheDir, name, build)
		if err != nil {
			return nil, err
		}
		file, err := mapped.Open(cached, fileKind, fileVersion)
		if err == nil {
			return load(file)
		}
		// A damaged cache file is made again from its sources, once.
		if attempt > 0 || !errors.Is(err, mapped.ErrFormat) {
			return nil, err
		}
		if err := store.Discard(cached); err != nil {
			return nil, err
		}
	}
}

func parseToMemory(ctx context.Context, files []string, total int64, options Options) (*Corpus, error) {
	var buffer mapped.Buffer
	b := newBuilder(&buffer)
	if err := b.readAll(ctx, files, total, options); err != nil {
		return nil, err
	}
	return b.inMemory(&buffer)
}

// errFull ends the reading at the limit.
var errFull = errors.New("the limit of documents is reached")

func (b *builder) readAll(ctx context.Context, files []string, total int64, options Options) error {
	b.limit = options.Limit
	var done int64
	for _, file := range files {
		if err := b.readFile(ctx, file); errors.Is(err, errFull) {
			break
		} else if err != nil {
			return err
		}
		if info, err := os.Stat(file); err == nil && options.Progress != nil {
			done += info.Size()
			options.Progress(done, total)
		}
	}
	if len(b.keyed) == 0 {
		return fmt.Errorf("%s: no document found", files[0])
	}
	if len(b.keyed) < b.limit {
		return fmt.Errorf("limit is %d, but %s holds %d documents; lower the limit", b.limit, strings.Join(files, ", "), len(b.keyed))
	}
	return nil
}

// sources lists the files of a corpus with their size in all.
func sources(path string) ([]string, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, fmt.Errorf("open the corpus: %w", err)
	}
	if !info.IsDir() {
		if !isSource(path) {
			return nil, 0, fmt.Errorf("%s: unknown kind of file, expected .jsonl, .ndjson, .json (or these with .gz or .zst) or .parquet", path)
		}
		return []string{path}, info.Size(), nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, 0, fmt.Errorf("open the corpus: %w", err)
	}
	var files []string
	var total int64
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") || !isSource(entry.Name()) {
			continue
		}
		file := filepath.Join(path, entry.Name())
		info, err := os.Stat(file)
		if err != nil {
			return nil, 0, fmt.Errorf("open the corpus: %w", err)
		}
		if info.Mode().IsRegular() {
			files = append(files, file)
			total += info.Size()
		}
	}
	if len(files) == 0 {
		return nil, 0, fmt.Errorf("%s: the folder holds no .jsonl, .ndjson, .json or .parquet file", path)
	}
	slices.Sort(files)
	return files, total, nil
}

func isSource(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".zst")
	switch filepath.Ext(name) {
	case ".jsonl", ".ndjson", ".json":
		return true
	case ".parquet":
		return strings.HasSuffix(strings.ToLower(path), ".parquet")
	}
	return false
}

// digestOf gives the SHA-256 of the sources and of all that decides how they are read.
func digestOf(ctx context.Context, files []string, options Options) (string, error) {
	all := sha256.New()
	fmt.Fprintf(all, "corpus %d splitter %d\n", fileVersion, splitterVersion)
	if options.Limit > 0 {
		fmt.Fprintf(all, "limit %d\n", options.Limit)
	}
	for _, file := range files {
		sum, err := digestFile(ctx, file, options.CacheDir)
		if err != nil {
			return "", err
		}
		// The ending chooses the reader.
		fmt.Fprintf(all, "%s %s\n", sum, strings.ToLower(filepath.Ext(file)))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

// digestFile gives the SHA-256 of a file. Reading a big corpus takes long, so the sum is kept with the file's path, size
// and time of change, and used again while these agree. A file changed so recently that another change might leave
// the same time is read again.
func digestFile(ctx context.Context, path, cacheDir string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	before, err := os.Stat(absolute)
	if err != nil {
		return "", err
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s\n%d\n%d", absolute, before.Size(), before.ModTime().UnixNano()))
	name := "sum-" + hex.EncodeToString(key[:16])
	if kept, err := os.ReadFile(filepath.Join(cacheDir, name)); err == nil && len(kept) == 2*sha256.Size {
		return string(kept), nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	file, err := os.Open(absolute)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, interruptible{ctx, file}); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	after, err := os.Stat(absolute)
	if err != nil {
		return "", err
	}
	if after.Size() != before.Size() || !after.ModTime().Equal(before.ModTime()) {
		return "", fmt.Errorf("%s changed while it was read: try again", path)
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	const settled = 2 * time.Second
	if time.Since(before.ModTime()) > settled {
		_, err = store.Ensure(ctx, cacheDir, name, func(out *os.File) error {
			_, err := out.WriteString(sum)
			return err
		})
	}
	return sum, err
}

// interruptible is a reader that fails once its context has ended.
type interruptible struct {
	ctx context.Context
	in  io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}
