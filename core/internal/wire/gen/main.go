// Command gen compiles the proto files of core/internal/wire into Go. It needs only Go: the compiler is a library and
// the generators are tools of the module.
//
//	go run ./core/internal/wire/gen [-out DIR]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const module = "github.com/forage-rl/forage"

func main() {
	out := flag.String("out", ".", "root of the module that the files go to")
	flag.Parse()
	if err := generate(context.Background(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate must run with the module's root as working directory; the files go to their package's folder under out.
func generate(ctx context.Context, out string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	protos := filepath.Join(root, "core", "internal", "wire", "proto")
	paths, err := filepath.Glob(filepath.Join(protos, "forage", "v1", "*.proto"))
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("no proto files under %s", protos)
	}
	var names []string
	for _, p := range paths {
		name, err := filepath.Rel(protos, p)
		if err != nil {
			return err
		}
		names = append(names, filepath.ToSlash(name))
	}
	slices.Sort(names)
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{protos}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names, Parameter: new("module=" + module)}
	added := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if added[f.Path()] {
			return
		}
		added[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, descriptor(f))
	}
	for _, f := range files {
		add(f)
	}
	for _, tool := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := run(ctx, root, tool, request, out); err != nil {
			return fmt.Errorf("%s: %w", tool, err)
		}
	}
	return nil
}

// descriptor prefers the descriptor that the compiler built: it has the comments.
func descriptor(f protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	if d, ok := f.(interface {
		FileDescriptorProto() *descriptorpb.FileDescriptorProto
	}); ok {
		return d.FileDescriptorProto()
	}
	return protodesc.ToFileDescriptorProto(f)
}

func run(ctx context.Context, root, tool string, request *pluginpb.CodeGeneratorRequest, out string) error {
	input, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", tool)
	cmd.Dir = root
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return errors.New(response.GetError())
	}
	for _, f := range response.File {
		path := filepath.Join(out, filepath.FromSlash(f.GetName()))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", fmt.Errorf("run it inside the module %s", module)
	}
	return filepath.Dir(file), nil
}
