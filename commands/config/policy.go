package config

import (
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// wirePolicy returns the policy of the state machine for the parts of an agent. A nil part is not
// configured.
func wirePolicy(c *Config, mail *cycle.Mail, mesh *cycle.Mesh, turns *turn.Config, replies cycle.Replies, budget state.Budget) state.Policy {
	policy := state.Policy{
		Location:        time.Local,
		HasMail:         mail != nil,
		HasMesh:         mesh != nil,
		PacesMesh:       mesh != nil && mesh.Paces,
		Keymaster:       c.File.Mesh.Keymaster,
		Peers:           c.File.Mesh.Peers,
		Ack:             replies.Ack != nil,
		QuietPrep:       replies.QuietPrep != nil,
		QuietActive:     replies.QuietActive != nil,
		Notices:         c.File.Replies.Notices,
		Working:         c.File.Replies.Working,
		NoPeerAck:       !c.File.Replies.AckPeers,
		Copies:          c.File.Replies.Sent != "",
		AckAfter:        time.Duration(c.File.Replies.AckAfter),
		Turns:           turns != nil,
		SelfTurns:       c.File.Turn.SelfTurns,
		MaxAttempts:     c.File.Turn.MaxAttempts,
		Rate:            c.File.Budget.MailsAnHour,
		EventRate:       c.File.Budget.EventsAnHour,
		IdleInterval:    time.Duration(c.File.Timing.IdleInterval),
		EngagedInterval: time.Duration(c.File.Timing.EngagedInterval),
		PrepTimeout:     time.Duration(c.File.Timing.PrepTimeout),
		ActiveTimeout:   time.Duration(c.File.Timing.ActiveTimeout),
		Cooldown:        time.Duration(c.File.Timing.Cooldown),
		ByThread:        c.File.Turn.Conversation == ConversationThread,
		Collect:         time.Duration(c.File.Turn.Collect),
		TurnTimeout:     time.Duration(c.File.Turn.Timeout),
		Budget:          budget,
	}
	if mail != nil {
		policy.Operator, policy.Others = mail.Filter.Operators[0], mail.Filter.Operators[1:]
		policy.Challenge = mail.Filter.Challenges()
	}
	return policy
}
