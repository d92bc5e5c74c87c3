package acp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/turn"
	"agentstateloop/turn/box"
)

// TestMain makes the test binary also the agent: `__agent NAME` runs the script of that name. It also
// stands in for our own program, which a runner starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "__agent" {
		s := &scripted{in: bufio.NewReaderSize(os.Stdin, 1<<20)}
		scripts[os.Args[2]](s)
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == turn.ACPCommand {
		os.Exit(host(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "__attempt" {
		fmt.Fprintln(os.Stderr, turn.Main(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == box.Stage {
		err := box.Main(os.Args[2:])
		if exit, ok := errors.AsType[box.Exit](err); ok {
			os.Exit(int(exit))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		flag.Set("test.parallel", "8") // these tests wait, other than those with real agents
	}
	os.Exit(m.Run())
}

// scripted is the agent's side of the wire.
type scripted struct {
	in      *bufio.Reader
	session string
	next    int

	cancelled bool // session/cancel came
}

// received is a message of ours to the agent.
type received struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *Fault          `json:"error"`
}

// read returns the next message, or ends the agent when its input ends.
func (s *scripted) read() received {
	line, err := s.in.ReadBytes('\n')
	if err != nil {
		os.Exit(0)
	}
	if log := os.Getenv("WIRE"); log != "" {
		f, _ := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		f.Write(line)
		f.Close()
	}
	var h received
	json.Unmarshal(line, &h)
	s.cancelled = s.cancelled || h.Method == "session/cancel"
	return h
}

// until reads up to a message with that method, and returns it.
func (s *scripted) until(method string) received {
	for {
		if h := s.read(); h.Method == method {
			return h
		}
	}
}

func (s *scripted) line(text string) { os.Stdout.WriteString(text + "\n") }

func (s *scripted) send(v any) {
	b, _ := json.Marshal(v)
	s.line(string(b))
}

type object = map[string]any

func (s *scripted) reply(h received, result any) {
	s.send(object{"jsonrpc": "2.0", "id": h.ID, "result": result})
}

func (s *scripted) fault(h received, code int, text string, data any) {
	s.send(object{"jsonrpc": "2.0", "id": h.ID, "error": object{"code": code, "message": text, "data": data}})
}

func (s *scripted) update(kind string, fields object) {
	u := object{"sessionUpdate": kind}
	for k, v := range fields {
		u[k] = v
	}
	s.send(object{"jsonrpc": "2.0", "method": "session/update", "params": object{"sessionId": s.session, "update": u}})
}

func text(words string) object { return object{"content": object{"type": "text", "text": words}} }

func (s *scripted) say(words string) { s.update("agent_message_chunk", text(words)) }

// begin answers initialize and session/new, and returns the prompt.
func (s *scripted) begin() received {
	s.initialize(object{})
	s.newSession()
	return s.until("session/prompt")
}

func (s *scripted) initialize(capabilities object) {
	s.reply(s.until("initialize"), object{"protocolVersion": 1, "agentCapabilities": capabilities, "agentInfo": object{"name": "scripted", "version": "1.2"}})
}

func (s *scripted) newSession() {
	s.session = "s1"
	s.reply(s.until("session/new"), object{"sessionId": "s1"})
}

// end ends the turn.
func (s *scripted) end(prompt received, reason string) {
	s.reply(prompt, object{"stopReason": reason})
}

// finish ends the turn and waits until the input of the agent ends.
func (s *scripted) finish(prompt received, reason string) {
	s.end(prompt, reason)
	s.until("")
}

// answer awaits the prompt and answers it.
func (s *scripted) answer(words string) {
	p := s.until("session/prompt")
	s.say(words)
	s.finish(p, "end_turn")
}

// refusing returns an agent with these capabilities that answers a request with an error.
func refusing(capabilities object, method string, code int, text string, data any) func(*scripted) {
	return func(s *scripted) {
		s.initialize(capabilities)
		s.fault(s.until(method), code, text, data)
		s.until("")
	}
}

var allOptions = []object{
	{"optionId": "aa", "name": "Always", "kind": "allow_always"}, {"optionId": "ao", "name": "Yes", "kind": "allow_once"},
	{"optionId": "ra", "name": "Never", "kind": "reject_always"}, {"optionId": "ro", "name": "No", "kind": "reject_once"},
}

// ask asks for permission, and returns the option that was selected, or the outcome.
func (s *scripted) ask(call object, options any) string {
	s.next++
	id := fmt.Sprintf("r%d", s.next)
	s.send(object{"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": object{"sessionId": s.session, "toolCall": call, "options": options}})
	for {
		h := s.read()
		if string(h.ID) != `"`+id+`"` {
			continue
		}
		var o outcome
		json.Unmarshal(h.Result, &o)
		if o.Outcome.Outcome == "selected" {
			return o.Outcome.Option
		}
		return o.Outcome.Outcome
	}
}

// playResult has the events of a turn, and the messages that the agent received.
type playResult struct {
	events []turn.Event
	wire   string
}

// play runs the agent of a script with settings.
func play(t *testing.T, script string, change func(*Settings)) playResult {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wire := filepath.Join(t.TempDir(), "wire")
	t.Setenv("WIRE", wire)
	var p playResult
	s := Settings{
		Command: []string{exe, "__agent", script}, Dir: t.TempDir(), Prompt: "hello", Version: "test",
		Emit:       func(e turn.Event) { p.events = append(p.events, e) },
		ExitWithin: 5 * time.Second,
	}
	if change != nil {
		change(&s)
	}
	if err := Run(context.Background(), s); err != nil {
		t.Fatal(err)
	}
	b, _ := os.ReadFile(wire)
	p.wire = string(b)
	return p
}

// done returns the last event.
func (p playResult) done(t *testing.T) turn.Event {
	t.Helper()
	if len(p.events) == 0 || p.events[len(p.events)-1].Kind != turn.Done {
		t.Fatalf("the last event is not Done: %+v", p.events)
	}
	return p.events[len(p.events)-1]
}

// answer returns the text of the answer.
func (p playResult) answer() string { return p.texts(turn.TextDelta) }

// texts returns the text of all events of a kind.
func (p playResult) texts(kind turn.EventKind) string {
	var b strings.Builder
	for _, e := range p.events {
		if e.Kind == kind {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// decisions returns the decisions about the requests for permission.
func (p playResult) decisions() (all []string) {
	for _, e := range p.events {
		if e.Kind == turn.Permission {
			all = append(all, e.Tool+" "+e.Text)
		}
	}
	return all
}

// jsonText returns v as JSON.
func jsonText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
