package relay

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"
)

// answerTimeout bounds how long a command waits for its answer. The runner sends a question before
// it answers.
const answerTimeout = 2 * time.Minute

// Call sends a request to the runner that listens in folder. An error means that the runner was
// not reached or did not answer, so it is unknown whether the runner performed the request.
func Call(ctx context.Context, folder string, r Request) (Answer, error) {
	return call(ctx, func(ctx context.Context) (net.Conn, error) {
		dir, err := os.Open(folder)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		return new(net.Dialer).DialContext(ctx, "unix", address(dir))
	}, r)
}

// call sends a request to the runner to which dial connects.
func call(ctx context.Context, dial func(context.Context) (net.Conn, error), r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var a Answer
	conn, err := dial(ctx)
	if err != nil {
		return a, fmt.Errorf("connect to the runner: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if err := writeMessage(conn, r); err != nil {
		return a, fmt.Errorf("ask the runner: %w", err)
	}
	if err := readMessage(conn, maxAnswer, &a); err != nil {
		return a, fmt.Errorf("ask the runner: %w", err)
	}
	return a, nil
}
