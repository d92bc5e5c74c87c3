package turn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"agentstateloop/turn"
	"agentstateloop/turn/acp"
)

// The test binary stands in for our own also where it speaks with an agent. A question to
// the operator is written to a file, and its id is the number of the question.
var _ = turn.SetACP(func(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	p := acp.Process{Stdin: os.Stdin, Stdout: os.Stdout, Ask: askByFile}
	if err := p.Main(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
})

func askByFile(_ context.Context, text string) (string, error) {
	dir := os.Getenv("TEST_QUESTIONS")
	if dir == "" {
		return "", errors.New("nobody is there")
	}
	asked, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	id := fmt.Sprintf("q%d", len(asked)+1)
	return id, os.WriteFile(filepath.Join(dir, id), []byte(text), 0o600)
}
