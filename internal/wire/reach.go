package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// reachTimeout bounds the first look at a server.
const reachTimeout = 5 * time.Second

// unreachable says why a server did not answer at all, nil if it did and the
// error is of another kind.
func unreachable(server, place string, err error) error {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return hint(fmt.Sprintf("%s at %s: there is no host %s", server, place, dns.Name), "correct the host in the URL")
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return hint(fmt.Sprintf("%s at %s: connection refused", server, place), "start it, or correct host and port in the URL")
	case isTLS(err):
		return hint(fmt.Sprintf("%s at %s: TLS: %s", server, place, tlsReason(err)), "correct the certificate, or the URL's TLS settings")
	case isTimeout(err):
		return hint(fmt.Sprintf("%s at %s: no answer in time", server, place), "is it up, and does a firewall let this machine through?")
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return hint(fmt.Sprintf("%s at %s: %s", server, place, op.Err), "correct host and port in the URL")
	}
	return nil
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

func isTLS(err error) bool { return tlsReason(err) != "" }

func tlsReason(err error) string {
	var header tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &header):
		return "the server does not speak it"
	case errors.As(err, &authority):
		return authority.Error()
	case errors.As(err, &host):
		return host.Error()
	case errors.As(err, &invalid):
		return invalid.Error()
	case errors.As(err, &verification):
		return verification.Error()
	}
	return ""
}
