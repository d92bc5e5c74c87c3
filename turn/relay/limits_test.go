package relay

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/internal/testkit/limittest"
)

// pipes is an in-memory listener.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return nil }

// roundTrip returns the caller's bytes of a server that answers a request with text.
func roundTrip(t *testing.T, request, text string, beforeRequest, beforeAnswer time.Duration) (got string) {
	synctest.Test(t, func(t *testing.T) {
		caller, conn := net.Pipe()
		go new(Server{handle: func(context.Context, Request) Answer {
			time.Sleep(2 * requestTimeout) // no limit counts the time of the handler
			return Answer{Text: text}
		}}).answer(t.Context(), conn)
		go func() {
			time.Sleep(beforeRequest)
			io.WriteString(caller, request) // after a timeout the server does not read all of it
		}()
		time.Sleep(2*requestTimeout + beforeAnswer)
		answer, _ := io.ReadAll(caller)
		got = string(answer)
		time.Sleep(beforeRequest)
	})
	return got
}

// callServer returns the error of a call whose answer takes a time.
func callServer(t *testing.T, answer string, takes time.Duration) (err error) {
	synctest.Test(t, func(t *testing.T) {
		_, err = call(t.Context(), func(context.Context) (net.Conn, error) {
			conn, runner := net.Pipe()
			go func() {
				bufio.NewReader(runner).ReadString('\n')
				time.Sleep(takes)
				io.WriteString(runner, answer)
			}()
			return conn, nil
		}, Request{})
		time.Sleep(takes)
	})
	return err
}

// paddedLine returns a line of JSON with n bytes.
func paddedLine(n int64) string {
	const rest = `{"text":""}` + "\n"
	return `{"text":"` + strings.Repeat("x", int(n)-len(rest)) + `"}` + "\n"
}

func TestLimits(t *testing.T) {
	const met = `{"text":"met"}` + "\n"
	limittest.Run(t, []limittest.Limit{
		{Const: "maxRequest", Max: 8 << 20, Within: func(t *testing.T, n int64) bool {
			return roundTrip(t, paddedLine(n), "met", 0, 0) == met
		}},
		{Const: "maxAnswer", Max: 16 << 20, Within: func(t *testing.T, n int64) bool {
			return callServer(t, paddedLine(n), 0) == nil
		}},
		{Const: "maxCalls", Max: 4, Within: func(t *testing.T, n int64) bool {
			var begun atomic.Int64
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				p := make(pipes)
				s := &Server{listener: p, handle: func(ctx context.Context, _ Request) Answer {
					begun.Add(1)
					<-ctx.Done()
					return Answer{}
				}}
				go s.accept(ctx, nil)
				for range n {
					caller, conn := net.Pipe()
					defer caller.Close()
					p <- conn
					go io.WriteString(caller, "{}\n")
				}
				synctest.Wait()
				cancel()
				close(p)
			})
			return begun.Load() == n
		}},
		limittest.Duration("requestTimeout", 10*time.Second, 2, func(t *testing.T, d time.Duration) bool {
			request := roundTrip(t, "{}\n", "met", d-1, 0) == met
			if answer := roundTrip(t, "{}\n", "met", 0, d-1) == met; answer != request {
				t.Errorf("a request may take %v: %v, and its answer: %v", d, request, answer)
			}
			return request
		}),
		limittest.Duration("answerTimeout", 2*time.Minute, 2, func(t *testing.T, d time.Duration) bool {
			return callServer(t, met, d-1) == nil
		}),
	})
}
