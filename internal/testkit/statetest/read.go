package statetest

import (
	"cmp"
	"fmt"
	"math"
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

// number returns an option that is a number, or 0 without it.
func (p phrase) number(name string) int { return atoi(p.opts[name]) }

// list returns the values of an option, which commas separate.
func (p phrase) list(name string) []string {
	if p.opts[name] == "" {
		return nil
	}
	return strings.Split(p.opts[name], ",")
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// check records the first error of a line.
func (st *Story) check(err error) {
	if st.err == nil {
		st.err = err
	}
}

// clock parses a time of day.
func (st *Story) clock(word string) time.Time {
	t, err := time.Parse("15:04:05", word)
	if err != nil {
		t, err = time.Parse("15:04", word)
	}
	st.check(err)
	return st.day.Add(t.Sub(time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)))
}

// time returns an option that is a time of day, or the zero time without it.
func (st *Story) time(p phrase, name string) time.Time {
	if p.opts[name] == "" {
		return time.Time{}
	}
	return st.clock(p.opts[name])
}

func (st *Story) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	st.check(err)
	return d
}

// after returns the option after=, or 0 without it.
func (st *Story) after(p phrase) time.Duration { return st.duration(cmp.Or(p.opts["after"], "0s")) }

// money parses dollars, also negative ones.
func (st *Story) money(s string) state.Micros {
	usd, err := strconv.ParseFloat(s, 64)
	st.check(err)
	return state.Micros(math.Round(usd * float64(state.Dollar)))
}

// events converts a phrase to events.
func (st *Story) events(p phrase) []state.Event {
	switch p.verb {
	case "poll": // mail was read to its end; "poll again" is a further round
		cursor, ended := st.cursor(p)
		cursor.Complete = st.Now
		return append([]state.Event{state.SourceRead{Source: state.Mail, Cursor: &cursor}}, append(ended, state.Polled{Again: p.has("again")})...)
	case "blind": // mail could not be read
		return []state.Event{state.SourceFailed{Source: state.Mail}, state.Polled{Again: p.has("again")}}
	case "fetched": // fetched 5, of a large mail: it came; fails "corrupt"; missed
		return st.fetched(p)
	}
	return []state.Event{st.event(p)}
}

// event converts a phrase to an event.
func (st *Story) event(p phrase) state.Event {
	text := p.opts["text"]
	switch p.verb {
	case "mail", "mesh", "tell", "event":
		return st.arrival(p)
	case "nudge":
		return state.Nudged{Key: p.word(0), From: p.opts["from"], Reason: text, MeshID: p.opts["id"], At: st.Now}
	case "tookfile":
		return state.TookFile{Key: p.word(0)}
	case "nudges":
		return state.NudgeFiles{Keys: p.words}
	case "refused":
		if n := p.number("more"); n != 0 { // `refused trust more=900`
			return state.RejectedMore{Gate: p.word(0), Source: state.Mail, Count: n}
		}
		return st.rejection(p)
	case "challenge": // about the mail, with a token of that name
		st.asked++
		return state.Challenged{Key: p.word(0), Hash: state.HashToken(p.word(1)), Mail: state.Effect{ID: fmt.Sprint("challenge.", st.asked)}}
	case "token":
		return st.vouched(p)
	case "release":
		return st.released(p)
	case "discard":
		return state.Discarded{Key: p.word(0), Reason: text}
	case "noted":
		return state.Noted{Key: p.word(0), Kind: "report", From: "dorlange3120", Source: state.Mesh, MeshID: p.opts["id"]}
	case "bounce": // bounce reply.t1 key=b1 uid=9 to=op@example.com "550 no such user"; delayed
		return state.Bounced{
			Key: p.opts["key"], UID: uint32(p.number("uid")), ID: st.id(p.word(0)), To: cmp.Or(p.opts["to"], st.P.Operator),
			Reason: text, Delayed: p.has("delayed"),
		}
	case "unpaused": // a person polls
		return state.Unpaused{}
	case "swept": // swept m1 m2
		return state.Swept{Keys: p.words, Looked: 12}
	case "transition":
		return state.Ordered{To: state.Phase(p.word(0)), Reason: text, NoMail: p.has("no-mail")}
	case "halt", "go":
		return state.Switched{On: p.verb == "halt", Mesh: p.has("mesh"), Reason: text}
	case "flagged":
		return state.Flagged{Mailbox: "box", Validity: 7, UIDs: []uint32{uint32(atoi(p.word(0)))}}
	case "acked":
		return state.MeshAcked{IDs: p.words}
	case "uninstall", "install":
		return state.Unscheduled{Removed: p.verb == "uninstall"}
	case "crontab": // the installed lines: crontab alarm=14:12 "*/30 * * * * poll"
		e := state.Scheduled{Line: text, Binary: "/bin/asl", Reason: p.opts["error"], Alarm: st.time(p, "alarm")}
		e.AlarmLine = when(!e.Alarm.IsZero(), e.Alarm.Format("4 15 2 1 *")+" poll")
		return e
	case "recovered":
		return state.Recovered{Reason: text}
	case "restored": // from the backup of that name: restored backup.tar made=08:00
		return state.Restored{Made: st.time(p, "made"), From: p.word(0), Seed: "seed of " + p.word(0)}
	case "settled": // settled m1 uid=5 digest=d1 "answered"
		return state.Settled{Key: p.word(0), From: st.P.Operator, UID: uint32(p.number("uid")), Digest: p.opts["digest"], At: st.Now, Evidence: text}
	case "found": // found reply.t1, in the folder for sent mail
		return state.FoundSent{ID: st.id(p.word(0))}
	case "sentread": // sentread missing "no folder", sentread failed "hung up"
		return state.SentRead{Missing: when(p.has("missing"), text), Failed: when(p.has("failed"), text)}
	case "moved": // moved otherhost "backup.tar"
		return state.Moved{To: p.word(0), Archive: text}
	case "elsewhere": // a sign of another machine: elsewhere host=mars at=09:00, elsewhere place=0123 at=09:00
		return state.ElsewhereSeen{Host: p.opts["host"], Place: p.opts["place"], At: st.time(p, "at")}
	case "registered": // the mesh knows this machine: registered host=venus
		return state.Registered{Phase: st.S.Phase, Host: p.opts["host"]}
	case "stays":
		return state.Unmoved{}
	case "credential":
		if p.word(1) == "works" {
			return state.CredentialWorked{Name: p.word(0), Reading: p.has("reading")}
		}
		return state.CredentialFailed{Name: p.word(0), Reason: text}
	case "out": // out agent:claude limit until=14:00 "resets 2pm"
		return state.BackendFailed{Backend: p.word(0), Kind: state.OutageKind(p.word(1)), Reason: text, Until: st.time(p, "until")}
	case "works":
		return state.BackendWorked{Backend: p.word(0)}
	case "relay":
		return state.RelayAsked{Key: p.word(0), From: cmp.Or(p.opts["from"], "dorlange3120"), Text: text, MeshID: p.opts["id"]}
	case "online":
		return state.Online{Handles: p.words}
	case "outbox": // outbox retry reply.t1, outbox drop reply.t1 "wrong" [alone]
		if p.word(0) == "retry" {
			return state.OutboxRetried{ID: st.id(p.word(1))}
		}
		return state.OutboxDropped{ID: st.id(p.word(1)), Reason: text, Alone: p.has("alone")}
	case "took": // took hook.1
		return state.HookTook{ID: st.id(p.word(0))}
	case "deaf": // deaf hook.1 "connection refused"; permanent; after=2m
		return state.HookFailed{ID: st.id(p.word(0)), Permanent: p.has("permanent"), Reason: text, RetryAfter: st.after(p)}
	case "pruned": // everything older than 90 days
		return state.Pruned{Before: st.Now.AddDate(0, 0, -90)}
	case "sending":
		return state.Sending{ID: st.id(p.word(0))}
	case "sent":
		return state.Sent{ID: st.id(p.word(0))}
	case "failed": // failed ack.1 permanent "550 no"; unknown; after=2m; refused; server "451 later"; no-receipt
		return state.SendFailed{
			ID: st.id(p.word(0)), Permanent: p.has("permanent"), Unknown: p.has("unknown"), Denied: p.has("refused"), Server: p.has("server"),
			NoReceipt: p.has("no-receipt"), Reason: text, RetryAfter: st.after(p),
		}
	case "claim":
		return state.Claimed{}
	case "pull":
		return state.Claimed{Pull: true}
	case "reply": // reply m2 to=question.1 at=09:40; by=tell: at the terminal; unproven; control=STOP
		return st.replied(p)
	case "report": // sent=09:50 is its time on the mesh
		return state.Reported{
			At:  st.time(p, "sent"),
			Key: p.word(0), From: cmp.Or(p.opts["from"], "dorlange3120"), ToolCallID: st.id(p.opts["to"]),
			Payload: "messages/" + p.word(0), MeshID: p.opts["id"], Status: state.Outcome(p.opts["status"]), Trace: p.opts["trace"],
			Local: p.has("local"), Proven: !p.has("local") && !p.has("unproven"),
		}
	case "stop":
		return state.Stopped{Reason: text}
	case "control":
		return state.Controlled{Arrived: st.arrival(p), Control: p.word(1)}
	case "reset":
		return state.MemoryReset{Note: text, Origin: "op"}
	case "credit":
		return state.Credited{Amount: st.money(p.word(0)), By: "op"}
	case "compact": // compact with=peer:bob thread=t1 session=s1 through=1 "the summary"; without a text the summary failed
		return state.Compacted{
			Talk:    state.Talk{With: cmp.Or(state.Principal(p.opts["with"]), state.OperatorPrincipal), Thread: p.opts["thread"]},
			Session: p.opts["session"], Through: uint64(p.number("through")), Text: text, File: when(text != "", "messages/summary"),
			Reason: when(text == "" && p.has("fails"), "the agent ended without an answer"),
		}
	case "retry":
		msg := state.Message{Key: p.word(0), Source: state.Mail, From: st.P.Operator, Operator: true, At: st.Now}
		if p.has("self") {
			msg.Source, msg.Kind, msg.MadeBy = state.Self, state.KindReminder, "t0"
		}
		return state.Retried{Message: msg}
	case "damaged": // the payload of a message is damaged
		key := p.word(0)
		if wait, follows := strings.CutPrefix(key, "report:"); follows {
			key = "report:" + st.id(wait)
		}
		return state.Damaged{Key: key, Reason: "messages/" + p.word(0) + " is damaged"}
	case "asks": // a process is about to ask the program of a prompt: asks morning p1
		return state.PromptAsked{Name: p.word(0), ID: p.word(1)}
	case "prompted":
		return st.prompted(p)
	case "drop":
		return state.Dropped{Key: p.word(0), Reason: text}
	}
	return st.turnEvent(p)
}

// prompted reads the result of a due prompt: prompted morning, prompted morning by=p1 skipped "no",
// failed "…". at=08:00 is a prompt at another time, and hand=cli1 one that a person wants.
func (st *Story) prompted(p phrase) state.Prompted {
	e := state.Prompted{
		Name: p.word(0), ID: p.opts["by"], Hand: p.opts["hand"], Message: state.Message{Payload: "messages/" + p.word(0), Kind: state.KindAlways},
		Skipped: when(p.has("skipped"), p.opts["text"]), Failed: when(p.has("failed"), p.opts["text"]), At: st.time(p, "at"),
	}
	for _, f := range st.S.DuePrompts(st.P, st.Now) {
		if f.Name == e.Name && e.At.IsZero() {
			e.At = f.At
		}
	}
	return e
}
