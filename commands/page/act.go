package page

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"agentstateloop/commands/act"
	"agentstateloop/commands/present"
	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
)

// command is the body of POST page/act.
type command struct {
	Agent string `json:"agent"` // its handle
	Act   string `json:"act"`
	What  string `json:"what"` // the number or the key of a message, or the id of a question or of the running turn
	Text  string `json:"text"` // of a message or an answer; the reason of any other act
}

// actFunc does an act, and returns a sentence for the user.
type actFunc func(s *Server, ctx context.Context, a *cycle.Agent, o command) (string, error)

// actOf returns the act with this name, or nil. Each has the command of the same effect.
func actOf(name string) actFunc {
	switch name {
	case "answer": // answer
		return (*Server).answerQuestion
	case "tell": // tell --no-wait
		return (*Server).tell
	case "release": // inbox release
		return (*Server).release
	case "drop": // inbox drop
		return (*Server).drop
	case "retry": // inbox retry
		return (*Server).retry
	case "stop": // stop
		return (*Server).stop
	case "halt": // halt
		return (*Server).halt
	case "resume": // resume
		return (*Server).resume
	}
	return nil
}

// actTime limits the time of an act. One that ends a turn sends its answer.
const actTime = 50 * time.Second

// maxReason limits the reason of an act, in bytes.
const maxReason = 500

// act carries out an order of the operator, with the checks of the command. The history says that it
// came from the page.
func (s *Server) act(rw http.ResponseWriter, r *http.Request) {
	text, p := s.doAct(rw, r)
	if p != nil {
		p.write(rw, r)
		return
	}
	answer(rw, http.StatusOK, map[string]any{"ok": true, "text": text})
}

func (s *Server) doAct(rw http.ResponseWriter, r *http.Request) (text string, p *problem) {
	of, p := s.admitted(r)
	if p != nil {
		return "", p
	}
	if !secret.Equal(r.Header.Get("X-Page-Token"), of.actToken) {
		return "", &problem{code: http.StatusForbidden, text: "this order does not come from the page of your session", hint: "reload the page"}
	}
	var o command
	if p := decode(rw, r, &o); p != nil {
		return "", p
	}
	do := actOf(o.Act)
	if do == nil {
		return "", &problem{code: http.StatusBadRequest, text: "the page cannot do " + inQuotes(o.Act), hint: "reload the page"}
	}
	a, p := s.find(o.Agent)
	if p != nil {
		return "", p
	}
	if err := a.Agent.Acts(); err != nil {
		return "", &problem{code: http.StatusServiceUnavailable, text: err.Error(), hint: "use the page of the host that acts", retrySecond: 60}
	}
	if !mayAct(a.Agent) {
		return "", &problem{code: http.StatusForbidden, text: fmt.Sprintf("the page only shows @%s: [listen] page is %q", a.Agent.Handle, a.Agent.Page),
			hint: `set it to "act" in agent.toml, or use the command`}
	}
	return s.carryOut(rw, r, a, do, o)
}

// carryOut does an act to its end, even if the browser disconnects.
func (s *Server) carryOut(rw http.ResponseWriter, r *http.Request, a listen.Shown, do actFunc, o command) (string, *problem) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actTime)
	defer cancel()
	if err := http.NewResponseController(rw).SetWriteDeadline(time.Now().Add(actTime + 10*time.Second)); err != nil {
		return "", &problem{code: http.StatusInternalServerError, text: err.Error()}
	}
	text, err := do(s, ctx, a.Agent, o)
	a.Poll() // also after an error, which may come after the commit
	if err != nil {
		return "", s.failure(a.Agent, err)
	}
	return s.Secrets.Redact(text), nil
}

// errNothingNamed refuses an act without its item.
var errNothingNamed = errors.New("the order names no message, question or turn")

// named returns the item of an act, and its reason.
func (o command) named() (what, reason string, err error) {
	if reason, err = o.reason(); err == nil && o.What == "" {
		err = errNothingNamed
	}
	return o.What, reason, err
}

// reason returns the origin of an act and its reason, for the history.
func (o command) reason() (string, error) {
	text := strings.TrimSpace(o.Text)
	switch {
	case len(text) > maxReason:
		return "", fmt.Errorf("the reason has %d bytes, and the limit is %d", len(text), maxReason)
	case text == "":
		return state.OnPage, nil
	}
	return state.OnPage + ": " + text, nil
}

func (s *Server) answerQuestion(ctx context.Context, a *cycle.Agent, o command) (string, error) {
	if o.What == "" {
		return "", errNothingNamed
	}
	given, err := a.Answer(ctx, o.What, state.PageUser(s.User), o.Text)
	if err != nil {
		return "", err
	}
	text, note := act.Answered(given)
	return strings.Join(strings.Fields(text+" "+parenthesis(note)), " "), nil
}

// parenthesis returns text in parentheses.
func parenthesis(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

func (s *Server) release(ctx context.Context, a *cycle.Agent, o command) (string, error) {
	what, reason, err := o.named()
	if err != nil {
		return "", err
	}
	_, already, err := act.Release(ctx, a, what, reason)
	if already {
		return act.AlreadyReleased(what), err
	}
	return "released " + what, err
}

func (s *Server) drop(ctx context.Context, a *cycle.Agent, o command) (string, error) {
	what, reason, err := o.named()
	if err != nil {
		return "", err
	}
	_, err = act.Drop(ctx, a, what, reason)
	return "dropped " + what, err
}

func (s *Server) retry(ctx context.Context, a *cycle.Agent, o command) (string, error) {
	what, reason, err := o.named()
	if err != nil {
		return "", err
	}
	_, held, err := act.Retry(ctx, a, what, reason, s.Now())
	if held != "" {
		return act.StillWaits(what, held), err
	}
	return "queued " + what + " again", err
}

func (s *Server) stop(ctx context.Context, a *cycle.Agent, o command) (string, error) {
	turn, reason, err := o.named()
	if err != nil {
		return "", err
	}
	_, text, err := act.Stop(ctx, a, turn, reason)
	return text, err
}

func (s *Server) halt(ctx context.Context, a *cycle.Agent, o command) (string, error) {
	return switched(ctx, a, o, a.Halt)
}

func (s *Server) resume(ctx context.Context, a *cycle.Agent, o command) (string, error) {
	return switched(ctx, a, o, a.Resume)
}

// switched sets or lifts HALT.
func switched(ctx context.Context, a *cycle.Agent, o command, change func(context.Context, string) (state.State, error)) (string, error) {
	reason, err := o.reason()
	if err != nil {
		return "", err
	}
	st, err := change(ctx, reason)
	if err != nil {
		return "", err
	}
	return act.Halted(a, st), nil
}

// told is a message to an agent.
type told struct{ handle, text string }

// doubleClick is the time within which the same message counts as a second click.
const doubleClick = 10 * time.Second

// secondClick reports whether a message was sent just now, or is being sent. It forgets older ones, and
// remembers this one until its act ends.
func (s *Server) secondClick(m told, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.told, func(_ told, until time.Time) bool { return !now.Before(until) })
	_, again := s.told[m]
	if !again {
		s.told[m] = now.Add(actTime)
	}
	return again
}

// tellEnded remembers a message that was sent for a second click, and forgets one that was not.
func (s *Server) tellEnded(m told, sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.told, m)
	if sent {
		s.told[m] = s.Now().Add(doubleClick)
	}
}

func (s *Server) tell(ctx context.Context, a *cycle.Agent, o command) (string, error) {
	now, message := s.Now(), told{a.Handle, o.Text}
	if s.secondClick(message, now) {
		return fmt.Sprintf("@%s already has this message: it was not sent twice", a.Handle), nil
	}
	key, err := a.Tell(ctx, state.PageUser(s.User), o.Text)
	s.tellEnded(message, err == nil)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("@%s has your message", a.Handle)
	st, err := a.Store.Read()
	if err != nil {
		return text, nil // the message is recorded
	}
	if _, waits := st.Message(key); waits {
		if w := a.View().WhyWaits(st, key); w.Never {
			text += ", but no answer is expected soon: " + present.Waiting(w, now)
		}
	}
	return text, nil
}
