package state

// WithTimesOf returns s with the serial of t and the times of t that every poll changes: when the
// last step was made, when the mailbox was read to its end, and when the next poll is due. A poll
// without news changes only these. If such a change is lost, it is as if the poll never came: the
// next one reads the mailbox from the same place.
func (s State) WithTimesOf(t State) State {
	s.Serial = t.Serial
	s.LastStep, s.NextDue, s.LastMailRead = t.LastStep, t.NextDue, t.LastMailRead
	s.Cursor.Complete = t.Cursor.Complete
	return s
}
