package wire

import (
	"fmt"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// ProtocolVersion is the version of the messages. It changes only when an old peer could not understand a new
	// one; new calls and fields leave it as it is.
	ProtocolVersion = 1
	// SDKVersion is the semantic version of core/sdk, which a pack reports.
	SDKVersion = "0.1.0"
	// MaxMessageBytes bounds one message in either direction.
	MaxMessageBytes = 64 << 20

	// PluginKey is the one entry of the plugin set: a process serves all services on one connection.
	PluginKey = "forage"

	cookieKey   = "FORAGE_PLUGIN"
	cookieValue = "b0c8f4d1-forage-plugin"

	// ClientCertEnv carries the host's certificate to the plugin, which answers with its own in the handshake.
	ClientCertEnv = "PLUGIN_CLIENT_CERT"
	// HostPIDEnv is the process id of the host.
	HostPIDEnv = "FORAGE_HOST_PID"
	// SocketDirEnv is the folder for the plugin's sockets.
	SocketDirEnv = "PLUGIN_UNIX_SOCKET_DIR"

	// DescribeArgument is the one argument with which a pack prints what it holds as JSON and exits.
	DescribeArgument = "describe"

	// CapabilityStateful says that an algorithm implements Save and Load.
	CapabilityStateful = "stateful"
)

// Keys of metadata and trailers.
const (
	// ChainKey holds the instances that a call has gone through, one value each, so that a cycle is found.
	ChainKey = "forage-chain"
	// PluginNanosKey is a trailer: the time inside the plugin's own code, calls to the host included.
	PluginNanosKey = "forage-plugin-nanos"
	// HostNanosKey is a trailer: the part of it that went to calls to the host, as the plugin saw it.
	HostNanosKey = "forage-host-nanos"
)

// Handshake is the first check of a plugin process. The cookie is no secret: it lets a binary that a person starts by
// hand say what it is.
func Handshake() plugin.HandshakeConfig {
	return plugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: cookieKey, MagicCookieValue: cookieValue}
}

// Limit explains the error of a message over MaxMessageBytes; other errors pass through.
func Limit(err error, what string) error {
	if s, ok := status.FromError(err); !ok || s.Code() != codes.ResourceExhausted {
		return err
	}
	return fmt.Errorf("%s: a message between host and plugin is over the limit of %d MiB (%s): send fewer or smaller items in one call",
		what, MaxMessageBytes>>20, status.Convert(err).Message())
}
