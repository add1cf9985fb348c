// Package experiment is the language that studies are written in: HCL files in, a checked and fully resolved
// configuration of each run out.
//
// [Load] reads a study with the method files it includes; [Study.Resolve] gives the configuration of one cell for one
// seed, all defaults expanded and every plugin block checked against the plugin's schema. Everything that can be wrong
// is reported in one pass, with places in the files.
//
// The package owns the grammar, merging, references, templates and expressions, and the canonical form that the
// identities of runs and evaluations are computed from. It must not know how plugins are started (schemas come through
// [SchemaSource]), how anything is run, or read any data file.
package experiment
