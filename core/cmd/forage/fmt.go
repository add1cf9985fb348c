package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/record"
)

func (a *app) fmtCommand() *cobra.Command {
	var check bool
	c := &cobra.Command{
		Use:     "fmt PATH...",
		Short:   "Lay HCL files out in the usual way",
		Long:    "Format .hcl files, and those in the folders named, in place. The names of changed files are printed.",
		Example: "  forage fmt experiments\n  forage fmt -check experiments",
		Args:    arguments(1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			var files []string
			for _, path := range args {
				found, err := hclFiles(path)
				if err != nil {
					return err
				}
				files = append(files, found...)
			}
			changed := 0
			failed := false
			for _, file := range files {
				differs, err := a.format(file, check)
				if errors.Is(err, errReported) {
					failed = true
					continue
				}
				if err != nil {
					return err
				}
				if differs {
					changed++
					fmt.Fprintln(a.out, file)
				}
			}
			if failed {
				return errReported
			}
			if check && changed > 0 {
				return fmt.Errorf("%d of %d files are not formatted; run \"forage fmt\" on them", changed, len(files))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&check, "check", false, "change nothing; fail when a file is not formatted")
	return c
}

// hclFiles lists the files that a path means.
func hclFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != path && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.Type().IsRegular() && strings.HasSuffix(name, ".hcl"):
			files = append(files, name)
		}
		return nil
	})
	return files, err
}

// format formats one file and says whether that changes it.
func (a *app) format(path string, check bool) (bool, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	file, diags := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	if diags.HasErrors() {
		files := map[string]*hcl.File{path: file}
		if err := hcl.NewDiagnosticTextWriter(a.err, files, uint(a.width), a.color).WriteDiagnostics(diags); err != nil {
			return false, err
		}
		return false, errReported
	}
	formatted := experiment.Format(src)
	if bytes.Equal(src, formatted) {
		return false, nil
	}
	if check {
		return true, nil
	}
	return true, record.WriteFile(path, formatted)
}
