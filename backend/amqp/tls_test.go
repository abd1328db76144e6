package amqp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill/backend/amqp"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// TLS, with the certificate verified: what is trusted works, what is not is refused.
func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, authority := certify(t)
	brokerURL := services.RabbitMQ(t)
	u, err := url.Parse(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	port := terminate(t, certificate, u.Host)
	u.Scheme = "amqps"
	at := func(host, query string) string {
		u.Host, u.RawQuery = net.JoinHostPort(host, port), query
		return u.String()
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]amqp.Config{
		"own configuration": {URLs: []string{at("localhost", "")}, TLS: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}},
		"from the URL":      {URLs: []string{at("localhost", "cacertfile="+url.QueryEscape(file))}},
	} {
		t.Run(name, func(t *testing.T) {
			config.Lane = lane
			b := open(t, config)
			if err := b.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			var h handled
			end := consuming(t, b, 2, h.handle)
			recovered(t, b, messages(1, 20))
			poll.Until(t, "every message came", func() bool { return h.different() == 20 })
			if err := end(); err != nil {
				t.Error(err)
			}
			if config.TLS != nil && config.TLS.ServerName != "" {
				t.Error("the configuration was written to")
			}
		})
	}
	for name, c := range map[string]struct {
		config amqp.Config
		hint   string
	}{
		"unknown authority": {amqp.Config{URLs: []string{at("localhost", "")}}, "cacertfile"},
		"another host": {amqp.Config{URLs: []string{at("127.0.0.1", "")}, TLS: &tls.Config{RootCAs: authority, MinVersion: tls.VersionTLS12}},
			"correct the host"},
		"without TLS": {amqp.Config{URLs: []string{"amqp://u:secret@localhost:" + port}}, "amqps://"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, open(t, c.config).Check(t.Context()), c.hint)
		})
	}
}

// certify makes a certificate for localhost that is its own authority.
func certify(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "waybill test"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// terminate takes TLS connections, and hands on what is in them to target. It
// returns its port.
func terminate(t *testing.T, certificate tls.Certificate, target string) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	var links sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		links.Wait()
	})
	links.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			links.Go(func() {
				defer client.Close()
				if client.(*tls.Conn).Handshake() != nil {
					return
				}
				server, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer server.Close()
				links.Go(func() {
					defer client.Close()
					_, _ = io.Copy(client, server)
				})
				_, _ = io.Copy(server, client)
			})
		}
	})
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}
