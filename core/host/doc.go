// Package host finds plugin packs, decides which may be started, starts one process per plugin instance, watches over
// it, and serves it the host's services.
//
// It owns trust, the lock file, processes and their failures. It must not know what the host's services do (it takes
// an [sdk.Host]), nor experiments or files of a study.
package host
