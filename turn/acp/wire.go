package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"agentstateloop/internal/secret"
)

// maxMessage bounds a message of the agent, in bytes. A longer one is skipped.
const maxMessage = 16 << 20

// maxUnsent bounds the queue of messages for an agent that does not read.
const maxUnsent = 4096

// message is one JSON-RPC message in either direction.
type message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *Fault

	raw     []byte // the line if it is not a message, otherwise nil
	skipped int    // the size of a skipped line, otherwise 0
}

// Fault is an error in an answer.
type Fault struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// The error codes that we use.
const (
	codeNoMethod     = -32601
	codeAuthRequired = -32000
)

// Error returns the message and the details in the data.
func (f *Fault) Error() string {
	var text string
	var data struct {
		Details string `json:"details"`
		Message string `json:"message"`
		Error   string `json:"error"`
	}
	if json.Unmarshal(f.Data, &text) != nil && json.Unmarshal(f.Data, &data) == nil {
		for _, s := range []string{data.Details, data.Message, data.Error} {
			if s != "" {
				text = s
				break
			}
		}
	}
	switch {
	case f.Message == "" && text == "":
		return fmt.Sprintf("error %d", f.Code)
	case text == "" || text == f.Message:
		return f.Message
	case f.Message == "":
		return text
	}
	return f.Message + ": " + text
}

// isResponse reports whether m answers a request of ours.
func (m message) isResponse() bool { return m.Method == "" && len(m.ID) > 0 }

// isRequest reports whether m needs an answer from us.
func (m message) isRequest() bool { return m.Method != "" && len(m.ID) > 0 }

// parseMessage parses a line. If the line is not a message, raw is set.
func parseMessage(line []byte) message {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	junk := message{raw: bytes.Clone(line)}
	if json.Unmarshal(line, &m) != nil {
		return junk
	}
	parsed := message{ID: m.ID, Params: m.Params, Result: m.Result}
	if string(m.ID) == "null" {
		parsed.ID = nil
	}
	if len(m.Method) > 0 && json.Unmarshal(m.Method, &parsed.Method) != nil {
		return junk
	}
	if len(m.Error) > 0 && string(m.Error) != "null" {
		parsed.Error = &Fault{}
		if json.Unmarshal(m.Error, parsed.Error) != nil {
			parsed.Error = &Fault{Message: string(m.Error)}
		}
	}
	if parsed.Method == "" && len(parsed.ID) == 0 && parsed.Error == nil {
		return junk
	}
	return parsed
}

// readMessages calls take with each line of r, until EOF or until take returns false. For a line
// that is too long, it passes only the size.
func readMessages(r io.Reader, take func(message) bool) {
	br := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	size := 0
	for {
		part, err := br.ReadSlice('\n')
		size += len(part)
		if size <= maxMessage {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		ok := true
		if size > maxMessage {
			ok = take(message{skipped: size})
		} else if text := bytes.TrimSpace(line); len(text) > 0 {
			ok = take(parseMessage(text))
		}
		if err != nil || !ok {
			return
		}
		if cap(line) > 1<<20 {
			line = nil
		}
		line, size = line[:0], 0
	}
}

// writer queues messages, so that its caller does not wait for the agent.
type writer struct {
	mu     sync.Mutex
	unsent [][]byte
	wake   chan struct{}
	closed bool
}

func newWriter(to io.WriteCloser, secrets *secret.Known) *writer {
	w := &writer{wake: make(chan struct{}, 1)}
	go secrets.Guarded(func() {
		defer to.Close()
		for range w.wake {
			for {
				lines, closed := w.take()
				for _, line := range lines {
					if _, err := to.Write(line); err != nil {
						return // the agent is gone, or has closed its input
					}
				}
				if closed {
					return
				}
				if len(lines) == 0 {
					break
				}
			}
		}
	})()
	return w
}

func (w *writer) take() (lines [][]byte, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, w.unsent = w.unsent, nil
	return lines, w.closed && len(lines) == 0
}

// send queues v. It returns an error if the queue is full because the agent does not read.
func (w *writer) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.unsent) >= maxUnsent {
		return errors.New("the agent does not read its input")
	}
	w.unsent = append(w.unsent, append(line, '\n'))
	w.nudge()
	return nil
}

// close ends the agent's input after the queued messages.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.nudge()
}

func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// request is our request to the agent, or a notification if ID is nil.
type request struct {
	Version string `json:"jsonrpc"`
	ID      any    `json:"id,omitempty"`
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// response is our answer to a request.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *Fault          `json:"error,omitempty"`
}

const jsonrpc = "2.0"
