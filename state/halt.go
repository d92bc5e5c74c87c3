package state

// Halted reports whether HALT is on, here or on the mesh.
func (s State) Halted() bool { return s.HaltedHere || s.HaltedMesh }

// Switched reports HALT (On) or GO: by hand, by mail, or on the mesh.
type Switched struct {
	Mesh   bool
	On     bool
	Reason string
}

// apply sets or lifts HALT where it was switched, here or on the mesh.
func (e Switched) apply(m *machine) {
	flag, where := &m.HaltedHere, "here"
	if e.Mesh {
		flag, where = &m.HaltedMesh, "mesh"
	}
	if *flag == e.On {
		return
	}
	*flag = e.On
	if !e.Mesh {
		m.operatorHeard()
	}
	what := "go"
	if e.On {
		what = "halt"
	}
	m.line(Line{Kind: LineHalt, What: what, From: where, Reason: e.Reason})
	if e.On && m.Turn.stoppable() {
		m.Turn.Stop = "halt"
	}
	m.schedule()
}

// Redacted implements [Redactable].
func (e Switched) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

func (m *machine) applyHaltLine(l Line) {
	on := l.What == "halt"
	if l.From == "mesh" {
		m.HaltedMesh = on
		return
	}
	m.HaltedHere = on
	m.operatorHeard()
}
