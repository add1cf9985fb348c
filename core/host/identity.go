package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// identity is the certificate by which the plugins of a run know their host. It is P-256: some TLS stacks do not offer
// the P-521 of go-plugin's own.
type identity struct {
	certificate tls.Certificate
	pem         []byte
}

func newIdentity() (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the host's certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make the host's certificate: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "localhost", Organization: []string{"forage"}},
		DNSNames:              []string{"localhost"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(1, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the host's certificate: %w", err)
	}
	return &identity{
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem:         pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

// config is for one plugin: go-plugin puts the plugin's certificate into both pools. Until then nobody is trusted.
func (i *identity) config() *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{i.certificate},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		RootCAs:      x509.NewCertPool(),
		ClientCAs:    x509.NewCertPool(),
		MinVersion:   tls.VersionTLS13,
		ServerName:   "localhost",
	}
}

// socketDir is the folder of a run's sockets and of its plugins' temporary files.
type socketDir struct{ path string }

const (
	socketPrefix = "forage-"
	// maxSocketBase keeps the whole path of a socket below the 104 bytes that some systems allow.
	maxSocketBase = 48
)

func newSocketDir() (*socketDir, error) {
	base := os.TempDir()
	if len(base) > maxSocketBase {
		base = "/tmp"
	}
	sweepSockets(base)
	path, err := os.MkdirTemp(base, fmt.Sprintf("%s%d-", socketPrefix, os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("make a folder for plugin sockets: %w", err)
	}
	return &socketDir{path: path}, nil
}

func (s *socketDir) close() error { return os.RemoveAll(s.path) }

// sweepSockets removes the folders of hosts that were killed before they could.
func sweepSockets(base string) {
	entries, err := filepath.Glob(filepath.Join(base, socketPrefix+"*-*"))
	if err != nil {
		return // only a malformed pattern, which this is not
	}
	for _, path := range entries {
		pid, err := strconv.Atoi(strings.Split(strings.TrimPrefix(filepath.Base(path), socketPrefix), "-")[0])
		if err != nil || pid <= 0 || !processGone(pid) {
			continue
		}
		if info, err := os.Lstat(path); err == nil && info.IsDir() && info.Mode().Perm() == fs.FileMode(0o700) {
			_ = os.RemoveAll(path) // someone else's folder stays, and that is right
		}
	}
}
