package present

import (
	"cmp"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
)

// fleetRow says who acts for an agent on several hosts.
func fleetRow(row row, f *view.StatusFleet, now time.Time) {
	if f == nil {
		return
	}
	seen := ""
	if f.SeenAt != nil {
		seen = ", seen " + terminal.Distance(*f.SeenAt, now)
	}
	switch {
	case f.Trouble != nil:
		row("FLEET", "%s", *f.Trouble)
	case f.CutOff && f.SeenAt == nil:
		row("CUT OFF", "this host, %s, holds the seat (term %d), but nothing begins before a poll reaches the servers", f.Host, f.Term)
	case f.CutOff:
		row("CUT OFF", "this host, %[2]s, has not reached the servers since %[1]s: nothing begins here until it does, and another host may act (term %[3]d)", moment(*f.SeenAt, now), f.Host, f.Term)
	case f.Acts && f.LeaseEnd != nil:
		row("fleet", "this host, %s, acts (term %d), lease left %s", f.Host, f.Term, terminal.Short(max(0, f.LeaseEnd.Sub(now)).Round(time.Second)))
	case f.Acts:
		row("fleet", "this host, %s, acts (term %d)", f.Host, f.Term)
	case f.Holder == nil && f.To != nil:
		row("STANDBY", "no host acts (term %d): the seat was released to %s", f.Term, plain.Line(*f.To))
	case f.Holder == nil:
		row("STANDBY", "no host acts (term %d): the seat was released%s", f.Term, around("; the next poll of a host takes it, or `", terminal.Program+" fleet take", "`"))
	case f.Auto:
		row("STANDBY", "%s acts (term %d%s); this host, %s, takes over if %s falls silent", plain.Line(*f.Holder), f.Term, seen, f.Host, plain.Line(*f.Holder))
	default:
		row("STANDBY", "%s acts (term %d%s); this host, %s, takes over only by `%s fleet take`", plain.Line(*f.Holder), f.Term, seen, f.Host, terminal.Program)
	}
}

// fleetBrief is fleetRow in a few words.
func fleetBrief(f view.StatusFleet) string {
	switch {
	case f.Trouble != nil:
		text, _, _ := strings.Cut(*f.Trouble, ":")
		return text
	case f.CutOff:
		return "CUT OFF"
	case f.Acts:
		return "acts on " + f.Host
	case f.Holder == nil:
		return "STANDBY, no host acts"
	}
	return "STANDBY, " + plain.Line(*f.Holder) + " acts"
}

// HostRow describes a host of an agent in columns: its name, whether it acts, when it last looked
// for work, and the version of its program.
func HostRow(h mesh.HostSeen, holder string, now time.Time) []string {
	role := "standby"
	switch {
	case h.Host == holder:
		role = "acts"
	case h.Away:
		role = "AWAY"
	}
	return []string{"  " + plain.Line(h.Host), role, "seen " + terminal.Clock(h.SeenAt, now), cmp.Or(plain.Line(h.Version), "unknown version")}
}
