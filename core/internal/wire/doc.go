// Package wire is what both sides of a plugin connection share: the protocol (proto files and the code generated from
// them in foragev1), the handshake, the size limit, and conversions between messages and the data types of the SDK.
//
// It is below the SDK: it must not know plugins' interfaces or the host. The plugin's side of the services is in
// core/sdk, the host's in core/internal/wire/hostside.
package wire
