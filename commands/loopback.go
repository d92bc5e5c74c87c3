package commands

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/internal/secret"
)

// The commands that serve HTTP on this machine share this file: listen, login and mesh serve.

const (
	// maxConnections limits the callers that a server of ours serves at once. The other callers
	// wait in the kernel's queue. Each agent's long poll takes one.
	maxConnections = 4096

	// shutdownTimeout limits pending calls when a server ends.
	shutdownTimeout = 5 * time.Second
)

// listenLoopback listens on a loopback address, for maxConnections at once.
func listenLoopback(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, terminal.Usagef("use an address such as 127.0.0.1:8801", "--addr %q is not a host and a port", addr)
	}
	if !config.Loopback(host) {
		return nil, terminal.Usagef("use an address such as 127.0.0.1:8801", "--addr %q is not a loopback address", addr)
	}
	listener, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, terminal.WithHint(err, "stop the program that uses this port, perhaps another mesh or listener, or use another --addr")
	}
	if err != nil {
		return nil, err
	}
	return limited(listener), nil
}

// limited returns a listener that serves maxConnections at once.
func limited(listener net.Listener) net.Listener {
	return netutil.LimitListener(listener, maxConnections)
}

// serveUntil serves until ctx ends, and then waits for pending calls.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, secrets *secret.Known) error {
	ended := make(chan error, 1)
	go secrets.Guarded(func() { ended <- server.Serve(listener) })()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return server.Close() // a caller does not read its answer
	}
	return nil
}
