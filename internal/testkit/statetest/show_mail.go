package statetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agentstateloop/state"
)

// unfetched returns the mails that cannot be fetched.
func (st *Story) unfetched() []string {
	var rows []string
	for _, f := range st.S.FailingMails() {
		rows = append(rows, fmt.Sprintf("%s after %d tries, again at %s", f.Key, f.Tries, st.at(f.Next)))
	}
	return rows
}

func (st *Story) outbox() []string {
	due := st.S.DueEffects(st.Now)
	var rows []string
	for _, e := range st.S.Outbox {
		row := fmt.Sprintf("%s to %s", e.ID, e.To)
		if slices.ContainsFunc(due, func(d state.Effect) bool { return d.ID == e.ID }) {
			row += ", due"
		}
		if !e.NotBefore.IsZero() && e.NotBefore.After(st.Now) {
			row += ", not before " + st.at(e.NotBefore)
		}
		if !e.Expires.IsZero() {
			row += ", expires " + st.at(e.Expires)
		}
		if e.Copies > 1 {
			row += fmt.Sprintf(", %d copies", e.Copies)
		}
		if e.Sending {
			row += ", on its way"
		}
		if e.Unknown && !e.Sending {
			row += ", may have arrived"
		}
		rows = append(rows, row)
	}
	return rows
}

// lost returns the mails that came back.
func (st *Story) lost() []string {
	var rows []string
	for _, r := range st.S.Lost {
		row := fmt.Sprintf("%s to %s: %s", r.ID, r.To, r.Reason)
		if !r.Told.IsZero() {
			row += ", told"
		}
		rows = append(rows, row)
	}
	return rows
}

// sendingFails returns since when mail cannot be sent.
func (st *Story) sendingFails() []string {
	if !st.S.SendingIsDown() {
		return nil
	}
	return []string{fmt.Sprintf("fails since %s: %s", st.at(st.S.SendingFails.Since), st.S.SendingFails.Reason)}
}

// undelivered returns the rows that were given up, and how the operator was told.
func (st *Story) undelivered() []string {
	var rows []string
	for _, e := range st.S.Undelivered {
		row := fmt.Sprintf("%s to %s at %s", e.ID, e.To, st.at(e.GivenUp))
		if e.Told != "" {
			row += ", told by " + string(e.Told)
		}
		rows = append(rows, row)
	}
	return rows
}

func (st *Story) quarantine() []string {
	var rows []string
	if n := st.S.Quarantined; n > 0 {
		rows = append(rows, fmt.Sprintf("%d kept", n))
	}
	if n := st.S.Unkept; n > 0 {
		rows = append(rows, fmt.Sprintf("%d not kept", n))
	}
	for _, t := range st.S.Challenges {
		rows = append(rows, fmt.Sprintf("%s asks about %s until %s", t.ID, t.Key, st.at(t.Until)))
	}
	if len(st.S.Unasked) > 0 {
		rows = append(rows, "to be asked about: "+strings.Join(st.S.Unasked, " "))
	}
	if len(st.S.Doubtful) > 0 {
		rows = append(rows, "signed, to be asked about: "+strings.Join(st.S.Doubtful, " "))
	}
	return rows
}

func (st *Story) failing() []string {
	var rows []string
	for _, name := range slices.Sorted(maps.Keys(st.S.Credentials)) {
		c := st.S.Credentials[name]
		row := fmt.Sprintf("%s, failure %d since %s", name, c.Failures, st.at(c.Since))
		if c.Keymaster.Sent {
			row += ", keymaster told"
		}
		if c.Operator.Sent {
			row += ", operator told"
		}
		if c.ToldByHook {
			row += ", told by a hook"
		}
		rows = append(rows, row)
	}
	return rows
}
