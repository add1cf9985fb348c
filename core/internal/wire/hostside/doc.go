// Package hostside is the host's end of a plugin connection: clients of a plugin's services and the server of the
// host's own. It works on any connection: it must not know processes, sockets or files.
package hostside
