package setup

// schedulePart is [schedule].
type schedulePart struct{ mode, crontab string }

func (s schedulePart) write(d *document) {
	if s.mode == "" && s.crontab == "" {
		return
	}
	d.section("schedule")
	if s.mode != "" {
		d.line("mode", s.mode, "crontab | fixed | none")
	}
	if s.crontab != "" {
		d.line("crontab", path(s.crontab), "")
	}
}
