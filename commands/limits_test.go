package commands

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/oauth2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/files"
	"agentstateloop/cycle/view"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/mail"
)

// pipes is a listener in memory. It ends when it is closed.
type pipes struct {
	conns  chan net.Conn
	closed context.Context
	end    func()
}

func newPipes() pipes {
	p := pipes{conns: make(chan net.Conn)}
	p.closed, p.end = context.WithCancel(context.Background())
	return p
}

func (p pipes) Close() error   { p.end(); return nil }
func (p pipes) Addr() net.Addr { return new(net.TCPAddr) }
func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed.Done():
		return nil, net.ErrClosed
	}
}

// dial returns the caller's end of a connection, or nil if it is not accepted.
func (p pipes) dial() net.Conn {
	caller, served := net.Pipe()
	select {
	case p.conns <- served:
		return caller
	case <-p.closed.Done():
		return nil
	}
}

// isKnown reports whether a mark can be read.
func isKnown(m dailyMark) bool {
	_, _, known := m.read(time.Now())
	return known
}

// defaultDuration returns the default of a flag of a command.
func defaultDuration(t *testing.T, command *cli.Command, name string) time.Duration {
	for _, f := range command.Flags {
		if f, ok := f.(*cli.GenericFlag); ok && f.Name == name {
			return time.Duration(*f.Value.(*duration))
		}
	}
	t.Fatalf("%s has no flag --%s", command.Name, name)
	return 0
}

func TestLimits(t *testing.T) {
	x := func(n int64) string { return strings.Repeat("x", int(n)) }
	limittest.Run(t, []limittest.Limit{
		{Const: "maxMark", Max: 4096, Within: func(t *testing.T, n int64) bool {
			const times = 2 * len("2026-01-02T03:04:05Z\n")
			o := dailyMark{filepath.Join(t.TempDir(), "mark"), strings.Repeat("x", int(n)-times-1)}
			return !isKnown(o) && o.write(time.Now(), time.Now()) && isKnown(o)
		}},
		limittest.Duration("orphanPatience", 24*time.Hour-1, 1, func(_ *testing.T, d time.Duration) bool {
			now := time.Now()
			return !isDayOld(now.Add(-d), now)
		}),
		// Input.
		{Const: "maxText", Max: 4 << 20, Within: func(t *testing.T, n int64) bool {
			c := func() *call { return &call{program: &program{stdin: strings.NewReader(x(n))}} }
			_, err := c().text("-")
			if got, _ := c().beginning("-"); (len(got) == int(n)) != (err == nil) {
				t.Errorf("of %d bytes the beginning has %d: %v", n, len(got), err)
			}
			return err == nil
		}},
		{Const: "maxNote", Max: 8 << 10, Within: func(t *testing.T, n int64) bool { return checkNote(x(n)) == nil }},

		// Output.
		{Const: "maxShownFiles", Max: 50, Within: func(t *testing.T, n int64) bool {
			var out bytes.Buffer
			printAttached(&terminal.Output{Stdout: &out}, "last", files.Attachments{Files: make([]files.ReceivedFile, n)})
			return !strings.Contains(out.String(), "more\n")
		}},
		{Const: "defaultResults", Max: 5, Within: func(t *testing.T, n int64) bool {
			return n <= int64(new(historyOptions).maxResults(&call{line: cli.NewContext(new(cli.App), nil, nil)}))
		}},

		// Waiting times.
		limittest.Duration("compactWait", 10*time.Minute, 1, func(t *testing.T, d time.Duration) bool {
			return d <= defaultDuration(t, compactCommand(new(program)), "wait")
		}),
		limittest.Duration("nudgeTimeout", 5*time.Minute, 1, func(t *testing.T, d time.Duration) bool {
			return d <= defaultDuration(t, nudgeCommand(&program{loader: new(config.Loader)}), "timeout")
		}),
		limittest.Duration("takeWait", 4*time.Minute, 1, func(t *testing.T, d time.Duration) bool {
			return d <= defaultDuration(t, fleetTakeCommand(new(program)), "timeout") && seat.Silence(seat.DefaultLease) < 4*time.Minute
		}),
		limittest.Duration("reasonAfter", 3*time.Second-1, 1, func(t *testing.T, d time.Duration) (silent bool) {
			synctest.Test(t, func(t *testing.T) {
				p := testProgram()
				p.out.Stderr = io.Discard
				why := waitReporter{call: &call{program: p}}
				why.show(view.Waiting{Why: view.WaitHalted})
				time.Sleep(d)
				why.show(view.Waiting{Why: view.WaitHalted})
				silent = !why.printed
			})
			return silent
		}),
		limittest.Duration("consentTimeout", 15*time.Minute, 1, func(t *testing.T, d time.Duration) (waits bool) {
			synctest.Test(t, func(t *testing.T) {
				listener := newPipes()
				defer listener.Close()
				begin := time.Now()
				if _, err := awaitConsent(t.Context(), nil, mail.OAuth{}, oauth2.Config{}, "", listener, func(string, string) error { return nil }); err == nil {
					t.Error("no consent")
				}
				waits = d <= time.Since(begin)
			})
			return waits
		}),
		{Const: "maxCollectPolls", Max: 10, Within: func(t *testing.T, n int64) bool {
			polls := int64(0)
			synctest.Test(t, func(t *testing.T) {
				wait := func() (time.Duration, error) { return time.Minute, nil }
				poll := func() (cycle.Report, error) { polls++; return cycle.Report{}, nil }
				if err := collect(t.Context(), wait, poll, new(cycle.Report)); err != nil {
					t.Fatal(err)
				}
			})
			return n <= polls
		}},

		// Our own servers.
		{Const: "maxConnections", Max: 4096, Within: func(t *testing.T, n int64) bool {
			var accepted atomic.Int64
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				listener := limited(p)
				go func() {
					for {
						if _, err := listener.Accept(); err != nil {
							return
						}
						accepted.Add(1)
					}
				}()
				for range n {
					go p.dial()
				}
				synctest.Wait()
				listener.Close()
			})
			return accepted.Load() == n
		}},
		limittest.Duration("shutdownTimeout", 5*time.Second, 2, func(t *testing.T, d time.Duration) (answered bool) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				listener := newPipes()
				server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					cancel()
					time.Sleep(d - 1)
					io.WriteString(w, "done")
				})}
				go serveUntil(ctx, server, listener, nil)
				caller := listener.dial()
				io.WriteString(caller, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				answer, err := bufio.NewReader(caller).ReadString('\n')
				answered = err == nil && strings.Contains(answer, "200 OK")
				caller.Close()
				time.Sleep(time.Minute)
			})
			return answered
		}),
	})
}
