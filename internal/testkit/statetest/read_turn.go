package statetest

import (
	"cmp"
	"fmt"

	"agentstateloop/state"
)

// turnEvent reads what happens to a turn: `start`, `end success`, `end success lingers`, `exit "clean
// exit"` and `reap`; the actions of the agent, or of its runner, from inside its turn, such as
// `ask dorlange3120 for=10m "which commit?"` and `giveback for=1m "not logged in"`; and `spent 0.30`.
// They are for the turn at the head unless turn= and epoch= name another.
func (st *Story) turnEvent(p phrase) state.Event {
	turn, epoch, text := st.S.Turn.TurnID, st.S.Turn.Epoch, p.opts["text"]
	if name, ok := p.opts["turn"]; ok {
		turn = st.id(name)
	}
	if n, ok := p.opts["epoch"]; ok {
		epoch = uint64(atoi(n))
	}
	box := fmt.Sprintf("turns/%s/%d/output", turn, epoch)
	wait := st.duration(cmp.Or(p.opts["for"], when(p.verb == "question", "6h"), "0s"))
	e := state.Effect{Channel: state.ByMesh, To: p.word(0), Text: text, TurnID: turn}
	switch p.verb {
	case "start":
		return state.Started{TurnID: turn, Epoch: epoch}
	case "end":
		return st.ended(p, state.Ended{TurnID: turn, Epoch: epoch, Outcome: state.Outcome(p.word(0)), Reason: text, OutputBox: box, Deliverable: "answer.md"})
	case "exit":
		return state.AgentEnded{TurnID: turn, Epoch: epoch, Reason: text}
	case "reap":
		return state.Reaped{TurnID: turn, Epoch: epoch, Reason: text}
	case "ask":
		e.Kind = state.Question
		return state.Asked{TurnID: turn, Epoch: epoch, Question: e, Patience: wait}
	case "question": // question for=10m options=yes,no "May I?"
		e.Kind, e.Channel, e.To, e.Thread = state.OperatorQuestion, state.ByMail, st.P.Operator, state.Thread{Subject: "asks"}
		e.Options = p.list("options")
		return state.Asked{TurnID: turn, Epoch: epoch, Question: e, Patience: wait}
	case "post": // post dorlange3120 "done"
		e.Kind = state.Post
		return state.Posted{TurnID: turn, Epoch: epoch, Effect: e}
	case "submit":
		return state.Submitted{TurnID: turn, Epoch: epoch, Deliverable: "submitted.txt", Finish: p.has("finish")}
	case "await": // await deploy for=1h peers=dorlange3120
		return state.Awaited{TurnID: turn, Epoch: epoch, What: "tool " + p.word(0), Text: text, Peers: p.list("peers"), Patience: wait}
	case "withdraw": // withdraw wait.1 "exit status 1"
		return state.Withdrawn{TurnID: turn, Epoch: epoch, ID: st.id(p.word(0)), Reason: text}
	case "finish":
		return state.Finished{TurnID: turn, Epoch: epoch}
	case "remember":
		return state.Remembered{TurnID: turn, Epoch: epoch, Text: text}
	case "plan": // plan sleep s1 for=10m "check", plan reminder r1 for=24h; by=op: the operator, at the terminal
		e := state.Planned{TurnID: turn, Epoch: epoch, Kind: p.word(0), Key: p.word(1), Title: text, Payload: "messages/" + p.word(1), For: wait}
		if by := p.opts["by"]; by != "" {
			e.TurnID, e.Epoch, e.From = "", 0, by
		}
		return e
	case "sleep":
		return state.Slept{TurnID: turn, Epoch: epoch, For: wait}
	case "suspend":
		return state.Suspended{TurnID: turn, Epoch: epoch, Box: box, Session: state.Session{Runner: "claude", ID: "s1"}}
	case "giveback": // giveback fresh, giveback worked, giveback counts
		return state.GivenBack{TurnID: turn, Epoch: epoch, Reason: text, Wait: wait, Fresh: p.has("fresh"), Worked: p.has("worked"), Counts: p.has("counts")}
	case "spent": // spent 0.30 id=c1 model=gpt-4o basis=table input=1000
		msg, _ := st.S.TurnMessage()
		e := state.Spent{TurnID: turn, Epoch: epoch, From: cmp.Or(p.opts["from"], msg.From), Spending: state.Spending{
			ID: p.opts["id"], Model: p.opts["model"], Cost: st.money(p.word(0)), Basis: cmp.Or(p.opts["basis"], state.BasisTable),
			Tokens: state.Tokens{Input: int64(p.number("input"))},
		}}
		if session, ok := p.opts["session"]; ok {
			e.Meter = state.Meter{Session: session, Tokens: e.Spending.Tokens}
		}
		return e
	}
	st.check(fmt.Errorf("no such event: %q", p.verb))
	return nil
}

// ended completes the end of a turn. With `unaware`, an end that lingers does not know the submitted
// deliverable. A reply goes to the message's sender, unless to=nobody.
func (st *Story) ended(p phrase, e state.Ended) state.Ended {
	if e.Lingers = p.has("lingers"); e.Lingers && !p.has("unaware") {
		e.Submitted = st.S.Turn.Submitted
	}
	if id := p.opts["session"]; id != "" {
		e.Session = state.Session{Runner: "claude", ID: id}
	}
	msg, _ := st.S.TurnMessage()
	reply := &state.Effect{ID: "reply." + e.TurnID, Kind: state.Reply, TurnID: e.TurnID, File: "outbox/reply"}
	switch {
	case p.opts["to"] == "nobody" || msg.Source == state.CLI || msg.Source == state.Self && p.opts["to"] == "":
	case msg.Source == state.Mesh:
		e.Reply, reply.Channel, reply.To = reply, state.ByMesh, msg.From
	default:
		e.Reply, reply.Channel, reply.To = reply, state.ByMail, cmp.Or(p.opts["to"], msg.From)
	}
	return e
}
