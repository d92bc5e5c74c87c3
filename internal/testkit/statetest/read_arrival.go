package statetest

import (
	"cmp"
	"slices"

	"agentstateloop/state"
)

// cursor reads the options of `poll` about mails: fails=5 "corrupt" is another failure of UID 5.
// ended=5 is the end of its failures, with `gone` or `another`. large=5 finds a large mail.
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

// fetched reads the result of fetching a large mail.
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
		Doubtful: p.has("doubtful"),
	}
}

// vouched reads `token x1 m2`: mail m2 shows the token of that name and comes in by it. With
// control=STOP it is a control. `token x1 m2 yes=m1` releases m1. Without the token the mail would
// be rejected; with proven it comes in anyway.
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

// arrival reads `mail m1`, `mesh q1 from=dorlange3120` and `tell c1`. at=09:29:10 is the time of
// the item. uid= and id= are for the acknowledgement to its server.
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
	case "event": // of a program, or by `tell --mail` with "mine"
		e.Message.Source, e.Message.From, e.Message.Proof = state.EventSource, cmp.Or(p.opts["from"], "backup"), state.ByProgram
		if p.has("mine") {
			e.Message.From, e.Message.Operator, e.Message.Proof = "op", true, ""
		}
	case "tell":
		e.Message.Source, e.Message.From, e.Message.Operator = state.CLI, "op", true
	}
	return []state.Event{e}, nil
}

// replied reads `reply m2 to=question.1`: a mail of the operator that answers a question. by=tell
// is an answer at the terminal. With `unproven` only the question's id proves it. With control=STOP
// it is a control.
func (st *Story) replied(p phrase) ([]state.Event, error) {
	arrived, err := st.arrival(phrase{verb: cmp.Or(p.opts["by"], "mail"), words: p.words, opts: p.opts})
	if err != nil {
		return nil, err
	}
	e := state.Replied{Arrived: arrived[0].(state.Arrived), Question: st.id(p.opts["to"]), Only: p.opts["by"] == "tell", Control: p.opts["control"]}
	if p.has("unproven") {
		e.Else = st.rejection(phrase{words: []string{p.word(0), "trust"}, opts: map[string]string{"text": "no word"}})
	}
	return []state.Event{e}, nil
}
