package relay

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"
)

// answerWithin bounds how long a command waits for its answer. A question is sent
// before it is answered.
const answerWithin = 2 * time.Minute

// Call asks the runner that listens in folder. An error means that the runner was
// not reached or did not answer, so it is unknown whether the request was met.
func Call(ctx context.Context, folder string, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var a Answer
	dir, err := os.Open(folder)
	if err != nil {
		return a, fmt.Errorf("reach the runner: %w", err)
	}
	defer dir.Close()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", address(dir))
	if err != nil {
		return a, fmt.Errorf("reach the runner: %w", err)
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
