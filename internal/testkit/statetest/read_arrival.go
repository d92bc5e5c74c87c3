package statetest

import (
	"cmp"
	"slices"

	"agentstateloop/state"
)

// cursor reads the options of `poll` about mails: fails=5 "corrupt" is another failure of UID 5.
// ended=5 is the end of its failures, with `gone` or `another`. large=5 finds a large mail. After a
// restore, a poll that owes no mail ends the time of the restored mailbox.
func (st *Story) cursor(p phrase) (state.Cursor, []state.Event) {
	c := st.S.Cursor.Clone()
	c.Mailbox, c.Validity, c.Next = "box", 7, max(1, c.Next)
	if uid := uint32(p.number("fails")); uid != 0 {
		if c.Failures == nil {
			c.Failures = map[uint32]state.Failure{}
		}
		c.Failures[uid] = c.Failures[uid].Again(st.Now, p.opts["text"])
		if i, owed := slices.BinarySearch(c.Owed, uid); !owed {
			c.Owed = slices.Insert(c.Owed, i, uid)
		}
		c.Next = max(c.Next, uid+1)
	}
	if uid := uint32(p.number("large")); uid != 0 {
		c.Owed, c.Large = append(c.Owed, uid), append(c.Large, uid)
		c.Next = max(c.Next, uid+1)
	}
	uid := uint32(p.number("ended"))
	if c.Restored != nil {
		c.Restored.Below = 100
		if len(c.Owed) == 0 || len(c.Owed) == 1 && c.Owed[0] == uid {
			c.Restored = nil
		}
	}
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

// noWord is the rejection of a mail without a proof.
func (st *Story) noWord(key string) state.Rejected {
	return st.rejection(phrase{words: []string{key, "trust"}, opts: map[string]string{"text": "no word"}})
}

// vouched reads `token x1 m2`: mail m2 shows the token of that name and comes in by it. With
// control=STOP it is a control. `token x1 m2 yes=m1` releases m1. Without the token the mail would
// be rejected; with proven it comes in anyway.
func (st *Story) vouched(p phrase) state.Vouched {
	key, event := p.word(1), st.released(phrase{words: p.words[1:], opts: p.opts}).Event
	v := state.Vouched{Key: key, Hash: state.HashToken(p.word(0)), UID: uint32(p.number("uid")), At: st.Now, Then: event, Else: st.noWord(key)}
	if p.has("proven") {
		v.Else = event
	}
	if key := p.opts["yes"]; key != "" {
		v.Then = st.released(phrase{words: []string{key}, opts: map[string]string{"text": "YES"}})
	}
	return v
}

// released reads `release k1` as a mail of the operator, `release k1 as=mesh` as a
// message of a peer, and `release k1 control=STOP`. same= identifies its bytes.
func (st *Story) released(p phrase) state.Released {
	e := state.Released{Key: p.word(0), Reason: p.opts["text"], Same: p.opts["same"]}
	arrived := st.arrival(phrase{verb: cmp.Or(p.opts["as"], "mail"), words: p.words, opts: p.opts})
	e.Event = arrived
	if control := p.opts["control"]; control != "" {
		e.Event = state.Controlled{Arrived: arrived, Control: control}
	}
	return e
}

// arrival reads `mail m1`, `mesh q1 from=dorlange3120` and `tell c1`, and `control m1 STOP` as a
// mail. at=09:29:10 is the time of the item. uid= and id= are for the acknowledgement to its server.
func (st *Story) arrival(p phrase) state.Arrived {
	key := p.word(0)
	e := state.Arrived{
		Message: state.Message{
			Key: key, At: st.Now, Payload: "messages/" + key, Trace: p.opts["trace"], Correlation: p.opts["correlation"],
			Size: p.number("size") << 10, AsksFields: p.has("fields"),
		},
		Digest: p.opts["digest"], OldDigest: p.opts["old"], UID: uint32(p.number("uid")), MeshID: p.opts["id"],
	}
	m := &e.Message
	if at := st.time(p, "at"); !at.IsZero() {
		m.At = at
	}
	switch p.verb {
	case "mail", "control":
		m.Source, m.From, m.Operator = state.Mail, st.P.Operator, true
		e.Thread = state.Thread{Subject: "re " + key, MessageID: "<" + key + "@example.com>"}
	case "mesh":
		m.Source, m.From, m.Kind = state.Mesh, cmp.Or(p.opts["from"], "dorlange3120"), cmp.Or(p.opts["kind"], "message")
		m.Proof = cmp.Or(state.Proof(p.opts["proof"]), state.ByToken)
	case "event": // of a program, or by `tell --mail` with "mine"
		m.Source, m.From, m.Proof = state.EventSource, cmp.Or(p.opts["from"], "backup"), state.ByProgram
		if p.has("mine") {
			m.From, m.Operator, m.Proof = "op", true, ""
		}
	case "tell":
		m.Source, m.From, m.Operator = state.CLI, "op", true
	}
	return e
}

// replied reads `reply m2 to=question.1`: a mail of the operator that answers a question. by=tell
// is an answer at the terminal. With `unproven` only the question's id proves it. With control=STOP
// it is a control.
func (st *Story) replied(p phrase) state.Replied {
	arrived := st.arrival(phrase{verb: cmp.Or(p.opts["by"], "mail"), words: p.words, opts: p.opts})
	e := state.Replied{Arrived: arrived, Question: st.id(p.opts["to"]), Only: p.opts["by"] == "tell", Control: p.opts["control"]}
	if p.has("unproven") {
		e.Else = st.noWord(p.word(0))
	}
	return e
}
