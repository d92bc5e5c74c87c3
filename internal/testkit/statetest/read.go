package statetest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/state"
)

// phrase is one event in words: a verb, plain words, name=value options.
type phrase struct {
	verb  string
	words []string
	opts  map[string]string
}

func parsePhrase(s string) phrase {
	p := phrase{opts: map[string]string{}}
	p.verb, s, _ = strings.Cut(strings.TrimSpace(s), " ")
	if before, quoted, ok := strings.Cut(s, `"`); ok { // one quoted text, at the end
		s = before
		p.opts["text"] = strings.TrimSuffix(quoted, `"`)
	}
	for _, word := range strings.Fields(s) {
		if name, value, ok := strings.Cut(word, "="); ok {
			p.opts[name] = value
			continue
		}
		p.words = append(p.words, word)
	}
	return p
}

func (p phrase) word(i int) string {
	if i < len(p.words) {
		return p.words[i]
	}
	return ""
}

func (p phrase) has(word string) bool { return slices.Contains(p.words, word) }

// event converts a phrase to events.
func (st *Story) event(p phrase) ([]state.Event, error) {
	switch p.verb {
	case "mail", "mesh", "tell", "event":
		return st.arrival(p)
	case "nudge":
		return []state.Event{state.Nudged{Key: p.word(0), From: p.opts["from"], Reason: p.opts["text"], MeshID: p.opts["id"], At: st.Now}}, nil
	case "tookfile":
		return []state.Event{state.TookFile{Key: p.word(0)}}, nil
	case "nudges":
		return []state.Event{state.NudgeFiles{Keys: p.words}}, nil
	case "refused":
		if n := p.opts["more"]; n != "" { // `refused trust more=900`
			return []state.Event{state.RejectedMore{Gate: p.word(0), Source: state.Mail, Count: atoi(n)}}, nil
		}
		return []state.Event{st.rejection(p)}, nil
	case "challenge": // about the mail, with a token of that name
		st.asked++
		return []state.Event{state.Challenged{Key: p.word(0), Hash: state.HashToken(p.word(1)), Mail: state.Effect{ID: fmt.Sprint("challenge.", st.asked)}}}, nil
	case "token":
		e, err := st.vouched(p)
		return []state.Event{e}, err
	case "release":
		e, err := st.released(p)
		return []state.Event{e}, err
	case "discard":
		return []state.Event{state.Discarded{Key: p.word(0), Reason: p.opts["text"]}}, nil
	case "noted":
		return []state.Event{state.Noted{Key: p.word(0), Kind: "report", From: "dorlange3120", Source: state.Mesh, MeshID: p.opts["id"]}}, nil
	case "bounce": // bounce reply.t1 key=b1 uid=9 to=op@example.com "550 no such user"; delayed
		return []state.Event{state.Bounced{
			Key: p.opts["key"], UID: uint32(atoi(p.opts["uid"])), ID: st.id(p.word(0)), To: cmp.Or(p.opts["to"], st.P.Operator),
			Reason: p.opts["text"], Delayed: p.has("delayed"),
		}}, nil
	case "poll": // mail was read to its end; "poll again" is a further round
		cursor, ended := st.cursor(p)
		cursor.Complete = st.Now
		return append([]state.Event{state.SourceRead{Source: state.Mail, Cursor: &cursor}}, append(ended, state.Polled{Again: p.has("again")})...), nil
	case "unpaused": // a person polls
		return []state.Event{state.Unpaused{}}, nil
	case "blind": // mail could not be read
		return []state.Event{state.SourceFailed{Source: state.Mail}, state.Polled{Again: p.has("again")}}, nil
	case "swept": // swept m1 m2
		return []state.Event{state.Swept{Keys: p.words, Looked: 12}}, nil
	case "fetched": // fetched 5, of a large mail: it came; fails "corrupt"; missed
		return st.fetched(p), nil
	case "transition":
		return []state.Event{state.Ordered{To: state.Phase(p.word(0)), Reason: p.opts["text"], NoMail: p.has("no-mail")}}, nil
	case "halt", "go":
		return []state.Event{state.Switched{On: p.verb == "halt", Mesh: p.has("mesh"), Reason: p.opts["text"]}}, nil
	case "flagged":
		return []state.Event{state.Flagged{Mailbox: "box", Validity: 7, UIDs: []uint32{uint32(atoi(p.word(0)))}}}, nil
	case "acked":
		return []state.Event{state.MeshAcked{IDs: p.words}}, nil
	case "uninstall", "install":
		return []state.Event{state.Unscheduled{Removed: p.verb == "uninstall"}}, nil
	case "crontab":
		return st.scheduled(p)
	case "recovered":
		return []state.Event{state.Recovered{Reason: p.opts["text"]}}, nil
	case "credential":
		if p.word(1) == "works" {
			return []state.Event{state.CredentialWorked{Name: p.word(0), Reading: p.has("reading")}}, nil
		}
		return []state.Event{state.CredentialFailed{Name: p.word(0), Reason: p.opts["text"]}}, nil
	case "out": // out agent:claude limit until=14:00 "resets 2pm"
		e := state.BackendFailed{Backend: p.word(0), Kind: state.OutageKind(p.word(1)), Reason: p.opts["text"]}
		if at, ok := p.opts["until"]; ok {
			var err error
			if e.Until, err = st.clock(at); err != nil {
				return nil, err
			}
		}
		return []state.Event{e}, nil
	case "works":
		return []state.Event{state.BackendWorked{Backend: p.word(0)}}, nil
	case "relay":
		return []state.Event{state.RelayAsked{Key: p.word(0), From: cmp.Or(p.opts["from"], "dorlange3120"), Text: p.opts["text"], MeshID: p.opts["id"]}}, nil
	case "online":
		return []state.Event{state.Online{Handles: p.words}}, nil
	case "outbox": // outbox retry reply.t1, outbox drop reply.t1 "wrong" [alone]
		if p.word(0) == "retry" {
			return []state.Event{state.OutboxRetried{ID: st.id(p.word(1))}}, nil
		}
		return []state.Event{state.OutboxDropped{ID: st.id(p.word(1)), Reason: p.opts["text"], Alone: p.has("alone")}}, nil
	case "took": // took hook.1
		return []state.Event{state.HookTook{ID: st.id(p.word(0))}}, nil
	case "deaf": // deaf hook.1 "connection refused"; permanent; after=2m
		after, err := time.ParseDuration(cmp.Or(p.opts["after"], "0s"))
		return []state.Event{state.HookFailed{ID: st.id(p.word(0)), Permanent: p.has("permanent"), Reason: p.opts["text"], RetryAfter: after}}, err
	case "pruned": // everything older than 90 days
		return []state.Event{state.Pruned{Before: st.Now.AddDate(0, 0, -90)}}, nil
	case "sending", "sent", "failed":
		return st.sending(p)
	case "claim", "start", "end", "reap", "exit":
		return st.turning(p)
	case "pull":
		return []state.Event{state.Claimed{Pull: true}}, nil
	case "reply": // reply m2 to=question.1 at=09:40; by=tell: at the terminal; unproven; control=STOP
		return st.replied(p)
	case "ask", "question", "post", "submit", "sleep", "plan", "remember", "suspend", "giveback", "await", "withdraw", "finish":
		return st.inside(p)
	case "report": // sent=09:50 is its time on the mesh
		var sent time.Time
		if at, ok := p.opts["sent"]; ok {
			var err error
			if sent, err = st.clock(at); err != nil {
				return nil, err
			}
		}
		return []state.Event{state.Reported{
			At:  sent,
			Key: p.word(0), From: cmp.Or(p.opts["from"], "dorlange3120"), ToolCallID: st.id(p.opts["to"]),
			Payload: "messages/" + p.word(0), MeshID: p.opts["id"], Status: state.Outcome(p.opts["status"]), Trace: p.opts["trace"],
			Local: p.has("local"), Proven: !p.has("local") && !p.has("unproven"),
		}}, nil
	case "stop":
		return []state.Event{state.Stopped{Reason: p.opts["text"]}}, nil
	case "control":
		arrived, err := st.arrival(phrase{verb: "mail", words: p.words, opts: p.opts})
		if err != nil {
			return nil, err
		}
		return []state.Event{state.Controlled{Arrived: arrived[0].(state.Arrived), Control: p.word(1)}}, nil
	case "reset":
		return []state.Event{state.MemoryReset{Note: p.opts["text"], Origin: "op"}}, nil
	case "spent":
		return st.spending(p)
	case "credit":
		amount, err := money(p.word(0))
		return []state.Event{state.Credited{Amount: amount, By: "op"}}, err
	case "compact": // compact with=peer:bob thread=t1 session=s1 through=1 "the summary"; without a text the summary failed
		with := cmp.Or(state.Principal(p.opts["with"]), state.OperatorPrincipal)
		e := state.Compacted{Talk: state.Talk{With: with, Thread: p.opts["thread"]}, Session: p.opts["session"], Through: uint64(atoi(p.opts["through"])), Text: p.opts["text"]}
		if e.Text != "" {
			e.File = "messages/summary"
		} else if p.has("fails") {
			e.Reason = "the agent ended without an answer"
		}
		return []state.Event{e}, nil
	case "retry":
		msg := state.Message{Key: p.word(0), Source: state.Mail, From: st.P.Operator, Operator: true, At: st.Now}
		if p.has("self") {
			msg.Source, msg.Kind, msg.MadeBy = state.Self, state.KindReminder, "t0"
		}
		return []state.Event{state.Retried{Message: msg}}, nil
	case "damaged": // the payload of a message is damaged
		key := p.word(0)
		if wait, follows := strings.CutPrefix(key, "report:"); follows {
			key = "report:" + st.id(wait)
		}
		return []state.Event{state.Damaged{Key: key, Reason: "messages/" + p.word(0) + " is damaged"}}, nil
	case "asks": // a process is about to ask the program of a prompt: asks morning p1
		return []state.Event{state.PromptAsked{Name: p.word(0), ID: p.word(1)}}, nil
	case "prompted":
		return st.prompted(p)
	case "drop":
		return []state.Event{state.Dropped{Key: p.word(0), Reason: p.opts["text"]}}, nil
	}
	return nil, fmt.Errorf("no such event: %q", p.verb)
}

// scheduled reads the installed lines: crontab alarm=14:12 "*/30 * * * * poll".
func (st *Story) scheduled(p phrase) ([]state.Event, error) {
	e := state.Scheduled{Line: p.opts["text"], Binary: "/bin/asl", Reason: p.opts["error"]}
	if at := p.opts["alarm"]; at != "" {
		var err error
		if e.Alarm, err = st.clock(at); err != nil {
			return nil, err
		}
		e.AlarmLine = e.Alarm.Format("4 15 2 1 *") + " poll"
	}
	return []state.Event{e}, nil
}

// prompted reads the result of a due prompt: prompted morning, prompted morning by=p1 skipped "no",
// failed "…". at=08:00 is a prompt at another time, and hand=cli1 one that a person wants.
func (st *Story) prompted(p phrase) ([]state.Event, error) {
	e := state.Prompted{Name: p.word(0), ID: p.opts["by"], Hand: p.opts["hand"], Message: state.Message{Payload: "messages/" + p.word(0), Kind: state.KindAlways}}
	for _, f := range st.S.DuePrompts(st.P, st.Now) {
		if f.Name == e.Name {
			e.At = f.At
		}
	}
	if at := p.opts["at"]; at != "" {
		var err error
		if e.At, err = st.clock(at); err != nil {
			return nil, err
		}
	}
	switch {
	case p.has("skipped"):
		e.Skipped = p.opts["text"]
	case p.has("failed"):
		e.Failed = p.opts["text"]
	}
	return []state.Event{e}, nil
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
