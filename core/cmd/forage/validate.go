package main

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/spf13/cobra"

	"github.com/forage-rl/forage/core/experiment"
	"github.com/forage-rl/forage/core/plan"
	"github.com/forage-rl/forage/core/study"
)

func (a *app) validateCommand() *cobra.Command {
	var f studyFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "validate PATH",
		Short: "Check a study, without reading data",
		Long: `Check everything that a study can run: names, types, ranges, plugin attributes,
expressions, unused blocks. All that is wrong is said at once, with its places.
PATH is a folder with a main.hcl, or a single file. No data is read.`,
		Example: "  forage validate experiments/minihop\n  forage validate experiments/hotpotqa -var data=DIR -var model=DIR -json",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			inputs, err := f.inputs()
			if err != nil {
				return err
			}
			catalogue, err := a.discover(cmd.Context())
			if err != nil {
				return err
			}
			defer catalogue.Close()
			s, diags := experiment.Load(cmd.Context(), args[0], inputs, study.Schemas(cmd.Context(), catalogue))
			if s.Readable() {
				diags = checked(s, diags)
			}
			if asJSON {
				data, err := experiment.DiagnosticsJSON(diags)
				if err != nil {
					return err
				}
				if _, err := a.out.Write(data); err != nil {
					return err
				}
				if diags.HasErrors() {
					return errReported
				}
				return nil
			}
			if err := a.diagnose(s, diags); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s is valid%s.\n", args[0], warnings(diags))
			return nil
		},
	}
	f.variables(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the diagnostics as JSON, for editors")
	return c
}

// checked adds to what reading the study found what its runs have wrong. Beside errors, warnings would only be of what
// follows from them.
func checked(s *experiment.Study, diags hcl.Diagnostics) hcl.Diagnostics {
	broken := diags.HasErrors()
	found := plan.Validate(s)
	for _, name := range s.Targets() {
		if ablation, _ := s.Ablation(name); ablation != nil {
			made, _ := plan.Make(s, ablation)
			found = append(found, study.Unsupported(made)...)
		}
	}
	for _, d := range found {
		if !broken || d.Severity == hcl.DiagError {
			diags = append(diags, d)
		}
	}
	return experiment.Tidy(diags)
}

func warnings(diags hcl.Diagnostics) string {
	n := 0
	for _, d := range diags {
		if d.Severity == hcl.DiagWarning {
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return ", with a warning"
	}
	return fmt.Sprintf(", with %d warnings", n)
}
