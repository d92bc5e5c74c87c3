package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"agentstateloop/cycle/hook"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/capture"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Prompts by the clock (docs/design.md, "Prompts by the clock").

// ClockPrompt is a prompt of the configuration: a text that the agent gets at set times. The
// policy has the times under its name.
type ClockPrompt struct {
	Name string
	Text string
	File string        // absolute path of the file with the text, or ""
	If   *hook.Program // asked whether there is work; nil: there always is
	Kind string        // state.KindAlways or state.KindSaid

	Patience time.Duration // with If; 0: PromptTimeout

	// The turns of the prompt have settings of their own. Fresh: each turn begins a session,
	// which the conversation does not continue. Args are added to the agent's command if its
	// runner is Runner. Model is for our own loop or an ACP agent, and Workdir is absolute; ""
	// of both: as usual.
	Fresh          bool
	Args           []string
	Runner         string
	Model, Workdir string
}

// promptOf returns the clock prompt that caused a message, or an empty one for other messages.
func promptOf(all []ClockPrompt, msg state.Message) ClockPrompt {
	if msg.Source != state.Clock {
		return ClockPrompt{}
	}
	i := slices.IndexFunc(all, func(c ClockPrompt) bool { return c.Name == msg.From })
	if i < 0 {
		return ClockPrompt{}
	}
	return all[i]
}

// applyTo applies the prompt's own settings to the program and the attempt of a turn.
func (c ClockPrompt) applyTo(program *turn.Config, at turn.Attempt) (*turn.Config, turn.Attempt) {
	own := *program
	if c.Workdir != "" {
		own.Workdir = c.Workdir
	}
	if c.Model != "" && own.Runner == turn.API && own.LoginName == "" { // a fallback has models of its own
		own.Command = append(slices.Clone(own.Command), turn.ModelFlag, c.Model)
	}
	if c.Model != "" && own.Runner == turn.ACP && own.LoginName == "" {
		own = *own.WithOptions(map[string]string{"model": c.Model})
	}
	if own.Runner == c.Runner {
		at.Extra = slices.Concat(at.Extra, c.Args)
	}
	return &own, at
}

// MaxPromptText limits the text of a prompt, in bytes.
const MaxPromptText = 64 << 10

// Words returns the text of the prompt. The error explains why the file is unusable.
func (c ClockPrompt) Words() (string, error) {
	text := c.Text
	if c.File != "" {
		data, err := readWords(c.File)
		if err != nil {
			return "", fmt.Errorf("its file cannot be read: %w", err)
		}
		text = string(data)
	}
	switch text = strings.TrimSpace(text); {
	case !utf8.ValidString(text):
		return "", fmt.Errorf("%s is not UTF-8 text", c.File)
	case text == "":
		return "", fmt.Errorf("%s is empty", c.File)
	}
	return text, nil
}

// readWords reads the file of a prompt, which may be a link.
func readWords(path string) ([]byte, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return osfile.ReadFile(path, MaxPromptText)
}

// ErrNoPrompt means that no prompt has this name.
var ErrNoPrompt = errors.New("no such [[prompt]] in agent.toml")

// RunPrompt gives a prompt a turn now, because a person asks for it, regardless of its times
// and its program. It returns the key of its message, which is durable then.
func (a *Agent) RunPrompt(ctx context.Context, name string) (key string, err error) {
	i := slices.IndexFunc(a.ClockPrompts, func(c ClockPrompt) bool { return c.Name == name })
	if i < 0 {
		return "", fmt.Errorf("%q: %w", name, ErrNoPrompt)
	}
	if err := a.core().acts(); err != nil {
		return "", err
	}
	p, c := a.clockPrompts(), a.ClockPrompts[i]
	words, err := c.Words()
	if err != nil {
		return "", fmt.Errorf("prompt %s: %w", name, err)
	}
	e := state.Prompted{Name: name, Hand: "prompt:" + name + ":by-hand:" + store.NewID()}
	if e.Message, err = p.keep(c, words); err != nil {
		return "", err
	}
	_, err = p.journal.commit(ctx, e)
	return e.Hand, err
}

// clockPrompts makes the messages of due prompts.
type clockPrompts struct {
	committer
	all     []ClockPrompt
	standIn func(context.Context, ClockPrompt) (nothing string, err error) // nil: the program itself

	detacher detacher
	flusher  *flusher
}

// promptRound handles the due prompts of one poll.
type promptRound struct {
	*clockPrompts
	asking sync.WaitGroup

	mu            sync.Mutex
	messagesMade  bool // a message was made since turns last ran
	programFailed bool // a program failed, perhaps after the cycle ended
	programLeft   bool // a program is left to another process
	err           error
}

// look makes the messages of the prompts that are due now. It asks programs in the background
// if ask is set, and otherwise leaves them to another process.
func (r *promptRound) look(ctx context.Context, ask bool) {
	if len(r.all) == 0 {
		return
	}
	s, err := r.store.Read()
	r.note(false, err)
	if err != nil {
		return
	}
	for _, f := range s.DuePrompts(*r.policy, r.now()) {
		i := slices.IndexFunc(r.all, func(c ClockPrompt) bool { return c.Name == f.Name })
		switch {
		case i < 0 || ctx.Err() != nil:
		case r.all[i].If == nil:
			r.note(r.make(ctx, r.all[i], state.Prompted{Name: f.Name, At: f.At}))
		case !ask:
			r.programLeft = true
		case r.standIn != nil:
			r.askNow(ctx, r.all[i], f)
		default:
			r.asking.Go(r.secrets.Guarded(func() { r.askNow(ctx, r.all[i], f) }))
		}
	}
}

// askNow asks the program of a prompt. It records a failure, so that the operator is notified.
func (r *promptRound) askNow(ctx context.Context, c ClockPrompt, f state.Firing) {
	made, broken, err := r.ask(ctx, c, f)
	r.note(made, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programFailed = r.programFailed || broken
}

// note records the result of a prompt.
func (r *promptRound) note(made bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messagesMade, r.err = r.messagesMade || made, errors.Join(r.err, err)
}

// wait waits for the programs. It notifies the operator of those that failed, and calls turns
// if messages were made since turns last ran. It sends only now: an earlier send would hold
// cycle.lock against the cycle of this poll.
func (r *promptRound) wait(ctx context.Context, turns func() error) error {
	r.asking.Wait()
	made, broken, err := r.messagesMade, r.programFailed, r.err
	r.messagesMade, r.programFailed, r.err = false, false, nil
	if broken {
		err = errors.Join(err, r.send(ctx))
	}
	if made {
		err = errors.Join(err, turns())
	}
	return err
}

// leave starts a detached poll that asks the programs that this poll left. If a turn is waiting
// as well, the caller starts one.
func (r *promptRound) leave(o PollOptions, report Report) error {
	if !r.programLeft || o.NoTurn && report.TurnWaiting {
		return nil
	}
	return r.detacher.detach()
}

// send sends pending effects, unless another process is about to.
func (p *clockPrompts) send(ctx context.Context) error {
	s, err := p.store.Read()
	if err != nil {
		return err
	}
	return p.flusher.sendNow(ctx, s)
}

// ask asks the program of a prompt, unless another process does, and makes the prompt's message
// if there is work. It reports whether it made the message, and whether the program failed.
func (p *clockPrompts) ask(ctx context.Context, c ClockPrompt, f state.Firing) (made, broken bool, err error) {
	id := store.NewID()
	s, err := p.journal.commit(ctx, state.PromptAsked{Name: f.Name, ID: id})
	if err != nil || !slices.ContainsFunc(s.Prompts, func(row state.TimedPrompt) bool { return row.Name == f.Name && row.AskedBy == id }) {
		return false, false, err
	}
	run := c.runIf
	if p.standIn != nil {
		run = func(ctx context.Context, _ time.Time) (string, error) { return p.standIn(ctx, c) }
	}
	bounded, release, err := p.mayBegin(ctx)
	if err != nil {
		p.logf("prompt %s: %v", c.Name, err)
		return false, false, nil // it is asked again
	}
	defer release()
	nothing, err := run(bounded, f.At)
	if bounded.Err() != nil {
		return false, false, nil // it is asked again
	}
	e := state.Prompted{Name: f.Name, At: f.At, ID: id, Skipped: nothing}
	if err != nil {
		e.Failed = err.Error()
	}
	if e.Failed != "" || e.Skipped != "" {
		p.logf("prompt %s: %s%s", f.Name, e.Failed, e.Skipped)
		_, err := p.journal.commit(ctx, e)
		return false, err == nil && e.Failed != "", err
	}
	made, err = p.make(ctx, c, e)
	return made, false, err
}

// make makes the message of a firing. It reports an unreadable text to the operator. made is
// true if this process made the message.
func (p *clockPrompts) make(ctx context.Context, c ClockPrompt, e state.Prompted) (made bool, err error) {
	words, err := c.Words()
	if err != nil {
		p.logf("prompt %s: %v", c.Name, err)
		e.Failed = err.Error()
	} else if e.Message, err = p.keep(c, words); err != nil {
		return false, err
	}
	s, err := p.journal.commit(ctx, e)
	if err == nil && e.Failed != "" {
		err = p.flusher.sendNow(ctx, s)
	}
	if err != nil || e.Failed != "" {
		return false, err
	}
	if row, ok := s.Message(state.PromptKey(e.Name, e.At)); ok && row.Payload == e.Message.Payload {
		return true, nil
	}
	_ = p.store.Remove(e.Message.Payload) // another process was first
	return false, nil
}

// keep stores the words of a prompt in a file of its own, and returns the message fields that
// describe them.
func (p *clockPrompts) keep(c ClockPrompt, words string) (state.Message, error) {
	words = p.secrets.Redact(words)
	first, _, _ := strings.Cut(words, "\n")
	m := state.Message{
		Kind: c.Kind, Title: view.TitleOf(plain.Cut(first, 4*view.MaxTitle)), Size: len(words),
		Payload: store.PayloadName(store.MessagesDir, "prompt:"+c.Name+":"+store.NewID(), ".txt"),
	}
	if p.policy.ByThread {
		m.ThreadID = message.NewThread("prompt " + c.Name) // shared by all its firings
	}
	var err error
	if m.Sum, err = p.store.KeepSummed(m.Payload, strings.NewReader(words)); err != nil {
		return m, fmt.Errorf("save prompt %s: %w", c.Name, err)
	}
	return m, nil
}

// PromptTimeout limits how long the program of a prompt may take to decide whether there is
// work. It is shorter than state.PromptLease.
const PromptTimeout = time.Minute

// maxAsked limits the output of such a program, in bytes.
const maxAsked = 1 << 20

// runIf runs the program of a prompt that was due at a time. Exit code 0 means that there is
// work: runIf returns "". Exit code 1 means that the prompt is skipped: runIf returns the reason.
// Everything else is an error.
func (c ClockPrompt) runIf(ctx context.Context, at time.Time) (nothing string, err error) {
	patience := cmp.Or(c.Patience, PromptTimeout)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := c.If
	name := filepath.Base(p.Command[0])
	cmd := exec.CommandContext(ctx, p.Command[0], p.Command[1:]...)
	cmd.Dir = p.Dir
	cmd.Env = append(append([]string{}, p.Env...), "AGENTSTATELOOP_PROMPT="+c.Name, "AGENTSTATELOOP_DUE="+at.UTC().Format(time.RFC3339))
	turn.WithholdLock() // otherwise a program that a turn's poll starts would pass for its agent
	printed, err := capture.Run(ctx, cmd, capture.Limits{Stdout: maxAsked, Stderr: maxAsked})
	if errors.Is(err, exec.ErrWaitDelay) {
		_ = capture.KillGroup(cmd) // processes that it left behind; an error means that the group has ended
		err = nil
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, capture.ErrTooMuch):
		return "", fmt.Errorf("its `if` program, %s, was killed because its output exceeds %d MiB", name, maxAsked>>20)
	case ctx.Err() != nil:
		return "", fmt.Errorf("its `if` program, %s, ran longer than %v and was killed", name, patience)
	case ended && exit.ExitCode() == 1:
		return name + " reports that there is nothing to do" + lastLine(": ", printed.Stdout), nil
	case ended:
		return "", fmt.Errorf("its `if` program, %s, failed: %v%s", name, err, lastLine(": ", printed.Stderr))
	}
	return "", fmt.Errorf("its `if` program cannot be started: %w", err)
}

// lastLine returns the last line that a program printed, after a separator.
func lastLine(separator string, printed []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(printed), "\uFFFD"))
	if text = plain.Shorten(plain.Line(text[strings.LastIndexByte(text, '\n')+1:]), 200); text == "" {
		return ""
	}
	return separator + text
}
