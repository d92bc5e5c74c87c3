package cycle_test

import (
	"testing"

	"agentstateloop/state"
)

func TestStatusShowsWhatIs(t *testing.T) {
	h := newAwakeHouse(t)
	_, err := h.agent.Halt(t.Context(), "test")
	check(t, err)
	h.receive(letter{id: "<one@example.com>"})
	h.receive(letter{id: "<two@example.com>", fields: "List-Id: <x.example.com>\r\n"})
	h.mail.SetPassword("changed")
	h.poll()
	h.mail.SetPassword(h.mail.Password)
	h.poll()
	s, err := h.agent.Status()
	check(t, err)
	if s.Agent != handle || s.Phase != state.PREP || !s.Halted || s.NextDue == nil || s.Deadline == nil {
		t.Errorf("status: %+v", s)
	}
	if s.Inbox.Waiting != 1 || s.Inbox.Quarantined != 1 || s.Turn.Status != state.HeadIdle || s.Turn.ID != nil {
		t.Errorf("inbox %+v, turn %+v", s.Inbox, s.Turn)
	}
	if len(s.Credentials) != 0 || s.Schedule.Installed == nil || *s.Schedule.Installed != "*/30 * * * *" {
		t.Errorf("credentials %+v, schedule %+v", s.Credentials, s.Schedule)
	}
}
