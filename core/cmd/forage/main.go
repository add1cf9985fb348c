package main

import (
	"context"
	"os"
)

// version is set by the linker.
var version = "dev"

func main() {
	a := newApp()
	ctx, stop := a.interruptible(context.Background())
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
