// Command bundle writes the hashes of the plugin packs in a folder, so that forage trusts what was built with it.
//
//	go run ./core/host/bundle bin/plugins
package main

import (
	"fmt"
	"os"

	"github.com/forage-rl/forage/core/host"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bundle DIR")
		os.Exit(2)
	}
	if err := host.WriteBundle(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}
