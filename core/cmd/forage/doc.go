// Command forage declares, plans, runs and judges experiments on multi-hop search agents. "forage --help" lists its
// verbs, one file each.
//
// The package owns what people see and type: flags, texts, progress, exit codes. It must not know how anything is
// computed; that is the packages' below.
package main
