package hook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"text/template"
	"time"

	"agentstateloop/internal/capture"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// Hook is one configured hook: a program or an address.
type Hook struct {
	Name    string
	On      []string           // names of events; see state.Hears
	Timeout time.Duration      // of a call; 0 means DefaultTimeout
	Body    *template.Template // template of the body, executed with a Data; nil means the event as JSON

	Program *Program // nil if the hook is an Address
	Address *Address

	// Redact replaces the secrets in the hook's output, before the output is shortened. nil
	// without secrets.
	Redact func(string) string
}

// safeOutput returns the hook's output in a form fit to show: one line without secrets.
func (h Hook) safeOutput(text []byte) string {
	words := string(text)
	if h.Redact != nil {
		words = h.Redact(words)
	}
	return plain.Shorten(plain.Line(words), maxSaid)
}

// maxSaid is the number of characters shown of a hook's output.
const maxSaid = 200

// Call is one event on its way to a hook. All attempts to deliver it have the same ID.
type Call struct {
	ID    string
	Event state.Announcement
	Body  []byte // from Render
}

// Error reports why a hook did not accept an event.
type Error struct {
	Reason     string
	Permanent  bool          // a retry cannot succeed
	RetryAfter time.Duration // the pause that the server asked for
}

func (e *Error) Error() string { return e.Reason }

// DefaultTimeout is the default of Hook.Timeout.
const DefaultTimeout = 10 * time.Second

// MaxBody limits the body of a hook, in bytes.
const MaxBody = 64 << 10

// Data holds the values that the templates of a hook can use.
type Data struct {
	state.Announcement
	Text string // the event as one readable line
}

// Functions returns the functions that the templates of a hook can call.
func Functions() template.FuncMap {
	return template.FuncMap{"json": func(v any) (string, error) {
		data, err := encode(v)
		return string(data), err
	}}
}

// Render returns the body of the hook for an event. If its template fails for this event, Render
// returns the event as JSON together with the error.
func (h Hook) Render(a state.Announcement) ([]byte, error) {
	plainly, err := encode(a)
	if err != nil || h.Body == nil {
		return plainly, err
	}
	body, err := execute(h.Body, a)
	if err != nil {
		return plainly, fmt.Errorf("hook %s: %w", h.Name, err)
	}
	return body, nil
}

// encode returns JSON without the HTML escapes.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

func execute(t *template.Template, a state.Announcement) ([]byte, error) {
	var out bytes.Buffer
	if err := t.Execute(&out, Data{Announcement: a, Text: Text(a)}); err != nil {
		return nil, err
	}
	if out.Len() > MaxBody {
		return nil, fmt.Errorf("the body has %d bytes, and the limit is %d", out.Len(), MaxBody)
	}
	return out.Bytes(), nil
}

// Text returns an event as one readable line.
func Text(a state.Announcement) string {
	parts := []string{"@" + a.Agent + ": " + strings.NewReplacer(".", " ", "_", " ").Replace(a.Event)}
	d := a.Data
	for _, detail := range []string{d.Credential, d.From, string(d.Tier), d.Gate, d.To} {
		if detail != "" {
			parts[0] += ", " + detail
			break
		}
	}
	if d.Reason != "" {
		parts = append(parts, d.Reason)
	}
	return plain.Line(strings.Join(parts, ": "))
}

// Deliver sends an event to the hook, and waits for its answer. The error is an *Error, unless
// ctx ended.
func (h Hook) Deliver(ctx context.Context, c Call) error {
	h.Timeout = cmp.Or(h.Timeout, DefaultTimeout)
	limited, cancel := context.WithTimeout(ctx, h.Timeout)
	defer cancel()
	var err error
	if h.Program != nil {
		err = h.Program.run(limited, c, h.safeOutput)
	} else {
		err = h.Address.post(limited, c, h.safeOutput)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case limited.Err() != nil:
		return &Error{Reason: fmt.Sprintf("it timed out after %v", h.Timeout)}
	}
	return err
}

// Program is a hook that runs a program. The program gets the body on its standard input. Exit
// code 0 accepts the event.
type Program struct {
	Command []string // the program and its arguments; a name without a slash is looked up in our own PATH, not that of Env
	Dir     string
	Env     []string // NAME=value
}

// maxPrinted limits the output of a program on each stream, in bytes.
const maxPrinted = 64 << 10

func (p *Program) run(ctx context.Context, c Call, safeOutput func([]byte) string) error {
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(append([]string{}, p.Env...), "AGENTSTATELOOP_EVENT="+c.Event.Event, "AGENTSTATELOOP_DELIVERY="+c.ID)
	cmd.Stdin = bytes.NewReader(c.Body)
	printed, err := capture.Run(ctx, cmd, capture.Limits{Stdout: maxPrinted, Stderr: maxPrinted})
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = capture.KillGroup(cmd) // kill the remaining children; an error means that the group has ended
		err = nil
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, capture.ErrTooMuch):
		return &Error{Reason: fmt.Sprintf("it was killed because its output exceeds %d KiB", maxPrinted>>10)}
	case cmd.ProcessState != nil && cmd.ProcessState.Exited() && len(printed.Stderr) > 0:
		return &Error{Reason: fmt.Sprintf("%v: %s", err, safeOutput(lastLine(printed.Stderr)))}
	}
	return &Error{Reason: err.Error()}
}

// lastLine returns the last line of a program's output.
func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}
