package main

import (
	"context"
	"os"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := interruptible(context.Background())
	code := newApp().run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
