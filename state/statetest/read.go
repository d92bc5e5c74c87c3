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
	case "ask", "post", "submit", "sleep", "plan", "remember", "suspend", "giveback", "await", "withdraw", "finish":
		return st.inside(p)
	case "report": // sent=09:50 is when, as the mesh says
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
	case "compact": // compact with=peer:bob session=s1 through=1 "the summary"; without one it came to nothing
		with := cmp.Or(state.Principal(p.opts["with"]), state.OperatorPrincipal)
		e := state.Compacted{With: with, Session: p.opts["session"], Through: uint64(atoi(p.opts["through"])), Text: p.opts["text"]}
		if e.Text != "" {
			e.File = "messages/summary"
		}
		return []state.Event{e}, nil
	case "retry":
		return []state.Event{state.Retried{Message: state.Message{Key: p.word(0), Source: state.Mail, From: st.P.Operator, Operator: true, At: st.Now}}}, nil
	case "damaged": // the payload of a message is not what was kept
		return []state.Event{state.Damaged{Key: p.word(0), Reason: "messages/" + p.word(0) + " is damaged"}}, nil
	case "drop":
		return []state.Event{state.Dropped{Key: p.word(0), Reason: p.opts["text"]}}, nil
	}
	return nil, fmt.Errorf("no such event: %q", p.verb)
}

// scheduled reads what is installed: crontab alarm=14:12 "*/30 * * * * poll".
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

// cursor reads what `poll` says of mails that cannot be fetched: fails=5 "corrupt"
// is another failure of UID 5, and ended=5 its end, which may be gone or another.
// large=5 finds a large mail.
func (st *Story) cursor(p phrase) (state.Cursor, []state.Event) {
	c := st.S.Cursor.Clone()
	c.Mailbox, c.Validity, c.Next = "box", 7, max(1, c.Next)
	if uid := uint32(atoi(p.opts["fails"])); uid != 0 {
		if c.Failures == nil {
			c.Failures = map[uint32]state.Failure{}
		}
		c.Failures[uid] = c.Failures[uid].Again(st.Now, p.opts["text"])
		if i, owed := slices.BinarySearch(c.Owed, uid); !owed {
			c.Owed = slices.Insert(c.Owed, i, uid)
		}
		c.Next = max(c.Next, uid+1)
	}
	if uid := uint32(atoi(p.opts["large"])); uid != 0 {
		c.Owed, c.Large = append(c.Owed, uid), append(c.Large, uid)
		c.Next = max(c.Next, uid+1)
	}
	uid := uint32(atoi(p.opts["ended"]))
	if uid == 0 {
		return c, nil
	}
	told := c.Failures[uid].Told
	delete(c.Failures, uid)
	c.Owed = slices.DeleteFunc(c.Owed, func(u uint32) bool { return u == uid })
	return c, []state.Event{state.FetchEnded{Key: c.Key(uid), Told: told, Gone: p.has("gone"), Another: p.has("another")}}
}

// fetched reads what came of the fetch of a large mail.
func (st *Story) fetched(p phrase) []state.Event {
	uid := uint32(atoi(p.word(0)))
	c := state.Cursor{Mailbox: "box", Validity: 7}
	failure := st.S.Cursor.Failures[uid]
	switch {
	case p.has("fails"):
		c.Owed, c.Large = []uint32{uid}, []uint32{uid}
		c.Failures = map[uint32]state.Failure{uid: failure.Again(st.Now, p.opts["text"])}
		return []state.Event{state.LargeFetched{UID: uid, Cursor: c}}
	case p.has("missed"):
		c.Unseen = c.Unseen.With(state.UIDRange{First: uid, Last: uid})
	}
	return []state.Event{state.LargeFetched{UID: uid, Cursor: c}, state.FetchEnded{Key: c.Key(uid), Told: failure.Told, Gone: p.has("missed")}}
}

// rejection reads `refused k1 trust "no word"`; with unkept, quarantine/ is full.
func (st *Story) rejection(p phrase) state.Rejected {
	return state.Rejected{
		Key: p.word(0), Source: state.Mail, From: "mallory@example.com", Gate: p.word(1), Reason: p.opts["text"], At: st.Now,
		Digest: p.opts["digest"], Unkept: p.has("unkept"), Ask: p.has("ask"),
	}
}

// vouched reads `token x1 m2`: a mail m2 that shows the token of that name and comes
// in by it. With control=STOP it is a control, and `token x1 m2 yes=m1` releases m1.
// Without the token it would be rejected; with proven it comes in anyway.
func (st *Story) vouched(p phrase) (state.Event, error) {
	reply := phrase{verb: "mail", words: p.words[1:], opts: p.opts}
	e, err := st.released(reply)
	v := state.Vouched{Key: reply.word(0), Hash: state.HashToken(p.word(0)), UID: uint32(atoi(p.opts["uid"])), At: st.Now, Then: e.Event}
	v.Else = st.rejection(phrase{words: []string{v.Key, "trust"}, opts: map[string]string{"text": "no word"}})
	if p.has("proven") {
		v.Else = e.Event
	}
	if key := p.opts["yes"]; key != "" && err == nil {
		v.Then, err = st.released(phrase{words: []string{key}, opts: map[string]string{"text": "YES"}})
	}
	return v, err
}

// released reads `release k1` as a mail of the operator, `release k1 as=mesh` as a
// message of a peer, and `release k1 control=STOP`. same= identifies its bytes.
func (st *Story) released(p phrase) (state.Released, error) {
	e := state.Released{Key: p.word(0), Reason: p.opts["text"], Same: p.opts["same"]}
	arrived, err := st.arrival(phrase{verb: cmp.Or(p.opts["as"], "mail"), words: p.words, opts: p.opts})
	if err != nil {
		return e, err
	}
	e.Event = arrived[0]
	if control := p.opts["control"]; control != "" {
		e.Event = state.Controlled{Arrived: arrived[0].(state.Arrived), Control: control}
	}
	return e, nil
}

// arrival reads `mail m1`, `mesh q1 from=dorlange3120` and `tell c1`. at=09:29:10 is
// the time of the item, uid= and id= are what its server is to be informed about.
func (st *Story) arrival(p phrase) ([]state.Event, error) {
	at := st.Now
	if s, ok := p.opts["at"]; ok {
		var err error
		if at, err = st.clock(s); err != nil {
			return nil, err
		}
	}
	e := state.Arrived{
		Message: state.Message{Key: p.word(0), At: at, Payload: "messages/" + p.word(0)},
		Digest:  p.opts["digest"], OldDigest: p.opts["old"], UID: uint32(atoi(p.opts["uid"])), MeshID: p.opts["id"],
	}
	e.Message.Trace, e.Message.Correlation = p.opts["trace"], p.opts["correlation"]
	e.Message.Size, e.Message.AsksFields = atoi(cmp.Or(p.opts["size"], "0"))<<10, p.has("fields")
	switch p.verb {
	case "mail":
		e.Message.Source, e.Message.From, e.Message.Operator = state.Mail, st.P.Operator, true
		e.Thread = state.Thread{Subject: "re " + p.word(0), MessageID: "<" + p.word(0) + "@example.com>"}
	case "mesh":
		e.Message.Source, e.Message.From, e.Message.Kind = state.Mesh, cmp.Or(p.opts["from"], "dorlange3120"), cmp.Or(p.opts["kind"], "message")
		e.Message.Proof = cmp.Or(state.Proof(p.opts["proof"]), state.ByToken)
	case "event": // of a program, or with "mine" by `tell --mail`
		e.Message.Source, e.Message.From, e.Message.Proof = state.EventSource, cmp.Or(p.opts["from"], "backup"), state.ByProgram
		if p.has("mine") {
			e.Message.From, e.Message.Operator, e.Message.Proof = "op", true, ""
		}
	case "tell":
		e.Message.Source, e.Message.From, e.Message.Operator = state.CLI, "op", true
	}
	return []state.Event{e}, nil
}

// sending reads `sending ack.1`, `sent ack.1`, `failed ack.1 permanent "550 no"`,
// `failed ack.1 unknown`, `failed ack.1 after=2m`, `failed ack.1 refused` and
// `failed ack.1 server "451 later"`.
func (st *Story) sending(p phrase) ([]state.Event, error) {
	id := st.id(p.word(0))
	switch p.verb {
	case "sending":
		return []state.Event{state.Sending{ID: id}}, nil
	case "sent":
		return []state.Event{state.Sent{ID: id}}, nil
	}
	after, err := time.ParseDuration(cmp.Or(p.opts["after"], "0s"))
	return []state.Event{state.SendFailed{
		ID: id, Permanent: p.has("permanent"), Unknown: p.has("unknown"), Denied: p.has("refused"), Server: p.has("server"),
		Reason: p.opts["text"], RetryAfter: after,
	}}, err
}

// turning reads `claim`, `start`, `end success`, `end success lingers` (unaware of what
// was submitted: `unaware`), `exit "clean exit"` and `reap`, for the turn at the head
// unless turn= and epoch= name another. A reply goes to the message's sender, unless
// to=nobody.
func (st *Story) turning(p phrase) ([]state.Event, error) {
	turn, epoch := st.S.Turn.TurnID, st.S.Turn.Epoch
	if name, ok := p.opts["turn"]; ok {
		turn = st.id(name)
	}
	if n, ok := p.opts["epoch"]; ok {
		epoch = uint64(atoi(n))
	}
	switch p.verb {
	case "claim":
		return []state.Event{state.Claimed{}}, nil
	case "start":
		return []state.Event{state.Started{TurnID: turn, Epoch: epoch}}, nil
	case "exit":
		return []state.Event{state.AgentEnded{TurnID: turn, Epoch: epoch, Reason: p.opts["text"]}}, nil
	case "reap":
		return []state.Event{state.Reaped{TurnID: turn, Epoch: epoch, Reason: p.opts["text"]}}, nil
	}
	box := fmt.Sprintf("turns/%s/%d/output", turn, epoch)
	e := state.Ended{TurnID: turn, Epoch: epoch, Outcome: state.Outcome(p.word(0)), Reason: p.opts["text"], OutputBox: box, Deliverable: "answer.md"}
	if e.Lingers = p.has("lingers"); e.Lingers && !p.has("unaware") {
		e.Submitted = st.S.Turn.Submitted
	}
	if id := p.opts["session"]; id != "" {
		e.Session = state.Session{Runner: "claude", ID: id}
	}
	msg, _ := st.S.TurnMessage()
	switch {
	case p.opts["to"] == "nobody" || msg.Source == state.CLI || msg.Source == state.Self && p.opts["to"] == "":
	case msg.Source == state.Mesh:
		e.Reply = &state.Effect{ID: "reply." + turn, Kind: state.Reply, Channel: state.ByMesh, To: msg.From, TurnID: turn, File: "outbox/reply"}
	default:
		e.Reply = &state.Effect{ID: "reply." + turn, Kind: state.Reply, Channel: state.ByMail, To: cmp.Or(p.opts["to"], msg.From), TurnID: turn, File: "outbox/reply"}
	}
	return []state.Event{e}, nil
}

// inside reads what the agent, or its runner, does from inside its turn:
// `ask dorlange3120 for=10m "which commit?"`, `post dorlange3120 "done"`,
// `submit`, `sleep for=10m`, `remember "text"`, `suspend`, `giveback for=1m "not logged in"`,
// `giveback forget`, `await deploy for=1h peers=dorlange3120`, `withdraw wait.1 "exit status 1"`,
// `finish`, `plan sleep s1 for=10m "check"`, `plan reminder r1 for=24h`; by=op sets a
// reminder at the terminal. turn= and epoch= name another turn.
func (st *Story) inside(p phrase) ([]state.Event, error) {
	turn, epoch := st.S.Turn.TurnID, st.S.Turn.Epoch
	if name, ok := p.opts["turn"]; ok {
		turn = st.id(name)
	}
	if n, ok := p.opts["epoch"]; ok {
		epoch = uint64(atoi(n))
	}
	span, err := time.ParseDuration(cmp.Or(p.opts["for"], "0s"))
	if err != nil {
		return nil, err
	}
	e := state.Effect{Channel: state.ByMesh, To: p.word(0), Text: p.opts["text"], TurnID: turn}
	switch p.verb {
	case "ask":
		e.Kind = state.Question
		return []state.Event{state.Asked{TurnID: turn, Epoch: epoch, Question: e, Patience: span}}, nil
	case "post":
		e.Kind = state.Post
		return []state.Event{state.Posted{TurnID: turn, Epoch: epoch, Effect: e}}, nil
	case "submit":
		return []state.Event{state.Submitted{TurnID: turn, Epoch: epoch, Deliverable: "submitted.txt", Finish: p.has("finish")}}, nil
	case "await":
		var peers []string
		if list := p.opts["peers"]; list != "" {
			peers = strings.Split(list, ",")
		}
		return []state.Event{state.Awaited{TurnID: turn, Epoch: epoch, What: "tool " + p.word(0), Text: p.opts["text"], Peers: peers, Patience: span}}, nil
	case "withdraw":
		return []state.Event{state.Withdrawn{TurnID: turn, Epoch: epoch, ID: st.id(p.word(0)), Reason: p.opts["text"]}}, nil
	case "finish":
		return []state.Event{state.Finished{TurnID: turn, Epoch: epoch}}, nil
	case "remember":
		return []state.Event{state.Remembered{TurnID: turn, Epoch: epoch, Text: p.opts["text"]}}, nil
	case "plan":
		e := state.Planned{TurnID: turn, Epoch: epoch, Kind: p.word(0), Key: p.word(1), Title: p.opts["text"], Payload: "messages/" + p.word(1), For: span}
		if by := p.opts["by"]; by != "" { // the operator, at the terminal
			e.TurnID, e.Epoch, e.From = "", 0, by
		}
		return []state.Event{e}, nil
	case "sleep":
		return []state.Event{state.Slept{TurnID: turn, Epoch: epoch, For: span}}, nil
	case "suspend":
		box := fmt.Sprintf("turns/%s/%d/output", turn, epoch)
		return []state.Event{state.Suspended{TurnID: turn, Epoch: epoch, Box: box, Session: state.Session{Runner: "claude", ID: "s1"}}}, nil
	default:
		return []state.Event{state.GivenBack{TurnID: turn, Epoch: epoch, Reason: p.opts["text"], Wait: span, Forget: p.has("forget")}}, nil
	}
}

// spending reads `spent 0.30 id=c1 model=gpt-4o basis=dearest input=1000`, for the
// turn at the head unless turn= names another.
func (st *Story) spending(p phrase) ([]state.Event, error) {
	cost, err := money(p.word(0))
	turn, epoch := st.S.Turn.TurnID, st.S.Turn.Epoch
	if name, ok := p.opts["turn"]; ok {
		turn = st.id(name)
	}
	msg, _ := st.S.TurnMessage()
	e := state.Spent{TurnID: turn, Epoch: epoch, From: cmp.Or(p.opts["from"], msg.From), Spending: state.Spending{
		ID: p.opts["id"], Model: p.opts["model"], Cost: cost, Basis: cmp.Or(p.opts["basis"], state.BasisTable),
		Tokens: state.Tokens{Input: int64(atoi(p.opts["input"]))},
	}}
	if session, ok := p.opts["session"]; ok {
		e.Meter = state.Meter{Session: session, Tokens: e.Spending.Tokens}
	}
	return []state.Event{e}, err
}

// money parses dollars, negative ones too.
func money(s string) (state.Micros, error) {
	usd, err := strconv.ParseFloat(s, 64)
	return state.Micros(math.Round(usd * float64(state.Dollar))), err
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
