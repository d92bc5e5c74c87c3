package statetest

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"agentstateloop/state"
)

// sending reads `sending ack.1`, `sent ack.1`, `failed ack.1 permanent "550 no"`, `failed ack.1
// unknown`, `failed ack.1 after=2m`, `failed ack.1 refused`, `failed ack.1 server "451 later"` and
// `failed reply.1 no-receipt`.
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
		ID: id, Permanent: p.has("permanent"), Unknown: p.has("unknown"), Denied: p.has("refused"), Server: p.has("server"), NoReceipt: p.has("no-receipt"),
		Reason: p.opts["text"], RetryAfter: after,
	}}, err
}

// turning reads `claim`, `start`, `end success`, `end success lingers`, `exit "clean exit"` and
// `reap`. They are for the turn at the head unless turn= and epoch= name another. With `unaware`,
// an end that lingers does not know the submitted deliverable. A reply goes to the message's
// sender, unless to=nobody.
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

// inside reads the actions of the agent, or of its runner, from inside its turn:
// `ask dorlange3120 for=10m "which commit?"`, `post dorlange3120 "done"`,
// `submit`, `sleep for=10m`, `remember "text"`, `suspend`, `giveback for=1m "not logged in"`,
// `giveback fresh`, `giveback worked`, `giveback counts`,
// `await deploy for=1h peers=dorlange3120`, `withdraw wait.1 "exit status 1"`,
// `finish`, `plan sleep s1 for=10m "check"`, `plan reminder r1 for=24h`.
// by=op sets a reminder at the terminal. turn= and epoch= name another turn.
func (st *Story) inside(p phrase) ([]state.Event, error) {
	turn, epoch := st.S.Turn.TurnID, st.S.Turn.Epoch
	if name, ok := p.opts["turn"]; ok {
		turn = st.id(name)
	}
	if n, ok := p.opts["epoch"]; ok {
		epoch = uint64(atoi(n))
	}
	unsaid := "0s"
	if p.verb == "question" {
		unsaid = "6h"
	}
	span, err := time.ParseDuration(cmp.Or(p.opts["for"], unsaid))
	if err != nil {
		return nil, err
	}
	e := state.Effect{Channel: state.ByMesh, To: p.word(0), Text: p.opts["text"], TurnID: turn}
	switch p.verb {
	case "ask":
		e.Kind = state.Question
		return []state.Event{state.Asked{TurnID: turn, Epoch: epoch, Question: e, Patience: span}}, nil
	case "question": // question for=10m options=yes,no "May I?"
		e.Kind, e.Channel, e.To, e.Thread = state.OperatorQuestion, state.ByMail, st.P.Operator, state.Thread{Subject: "asks"}
		if list := p.opts["options"]; list != "" {
			e.Options = strings.Split(list, ",")
		}
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
		return []state.Event{state.GivenBack{TurnID: turn, Epoch: epoch, Reason: p.opts["text"], Wait: span, Fresh: p.has("fresh"), Worked: p.has("worked"), Counts: p.has("counts")}}, nil
	}
}

// spending reads `spent 0.30 id=c1 model=gpt-4o basis=table input=1000`, for the turn at the head
// unless turn= names another.
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

// money parses dollars, also negative ones.
func money(s string) (state.Micros, error) {
	usd, err := strconv.ParseFloat(s, 64)
	return state.Micros(math.Round(usd * float64(state.Dollar))), err
}
