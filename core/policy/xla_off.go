//go:build !xla

package policy

import (
	"fmt"

	"github.com/gomlx/compute"
)

// xlaBuilt says that this program can load PJRT plugins.
const xlaBuilt = false

func openXLA(string) (compute.Backend, error) {
	return nil, fmt.Errorf("%w: this program was built without XLA; build it with CGO_ENABLED=1 and -tags xla, and give the path of a PJRT plugin as \"xla:/absolute/path/plugin.so\"", ErrNotSupported)
}
