package mail

import (
	"fmt"
	"slices"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// A delivery report says what became of a mail that a server had taken (docs/design.md,
// "Our mail"). Anybody can send one, so a report costs little: the header must look
// like one, a few are read in one scan, of each only the beginning, and it counts only
// if it shows a Message-ID of which the MAC is ours.
const (
	maxReports     = 100       // that wait to be read
	reportsAtOnce  = 10        // read in one scan
	reportLength   = 256 << 10 // bytes of one that are read
	maxReportTries = 3
)

// reporters are parts of the addresses from which mail servers send reports.
var reporters = []string{"mailer-daemon", "postmaster"}

// Returned is what a delivery report says about a mail of ours.
type Returned struct {
	Key     string    // of the report, as of Message
	UID     uint32    // of the report
	At      time.Time // INTERNALDATE of the report
	Effect  string    // of which the mail was, in lower case
	To      string    // who did not get it
	Reason  string
	Delayed bool // its server goes on trying
}

// reportsToUs reports whether a header may be that of a delivery report for this agent.
// likely is true if it names a Message-ID of ours.
func (f Filter) reportsToUs(raw []byte) (ok, likely bool) {
	fields := message.Fields(raw)
	if !message.LooksLikeReport(fields) {
		return false, false
	}
	addressed, anybody := false, false
	for _, field := range fields {
		switch field.Name {
		case "in-reply-to", "references":
			likely = likely || slices.ContainsFunc(message.ThreadIDs(field.Value), func(id string) bool {
				_, ours := f.ids().Effect(id)
				return ours
			})
		case "to", "cc":
			anybody = true
			addressed = addressed || f.isOwn(field.Value)
		case "delivered-to", "x-original-to", "envelope-to", "x-delivered-to":
			addressed = addressed || f.isOwn(field.Value)
		}
	}
	return likely || addressed || !anybody, likely
}

// isOwn reports whether a list of addresses holds one of this agent's.
func (f Filter) isOwn(list string) bool {
	return slices.ContainsFunc(message.Addresses(list), func(a string) bool {
		return a == message.NormalAddress(f.Own) || slices.ContainsFunc(f.Aliases, func(alias string) bool { return a == message.NormalAddress(alias) })
	})
}

// readReport returns what a report says about a mail of ours. ok is false if it says
// nothing; forged is true if it names an id that only looks like ours.
func (f Filter) readReport(raw []byte) (r Returned, ok, forged bool) {
	report := message.ReadReport(raw)
	for _, id := range report.IDs {
		effect, ours := f.ids().Effect(id)
		if !ours {
			forged = forged || f.ids().HasForm(id)
			continue
		}
		r = Returned{Effect: effect, To: f.lostTo(report.Recipients), Reason: report.Reason, Delayed: report.Delayed}
		return r, report.Failed || report.Delayed, false
	}
	return r, false, forged
}

// lostTo returns the recipient who did not get a mail of ours: an operator, or whom the
// report names.
func (f Filter) lostTo(recipients []string) string {
	if i := slices.IndexFunc(recipients, f.Operator); i >= 0 {
		return recipients[i]
	}
	if len(recipients) > 0 {
		return oneLine(recipients[0], 200)
	}
	return ""
}

// noteReport notes a mail that may be a delivery report, to be read after all others.
// Of too many, one that names an id of ours takes the place of one that does not.
func (sc *scanner) noteReport(h *head) {
	ok, likely := sc.filter.reportsToUs(h.raw)
	reports := &sc.out.Cursor.Reports
	if !ok || slices.ContainsFunc(*reports, func(r state.UnreadReport) bool { return r.UID == h.uid }) {
		return
	}
	if len(*reports) >= maxReports {
		last := -1
		for i, r := range *reports {
			if !r.Likely {
				last = i
			}
		}
		if !likely || last < 0 {
			return
		}
		*reports = slices.Delete(*reports, last, last+1)
	}
	*reports = append(*reports, state.UnreadReport{UID: h.uid, Likely: likely})
}

// takeReports reads some of the delivery reports that wait, those first that name an id
// of ours.
func (sc *scanner) takeReports() error {
	reports := &sc.out.Cursor.Reports
	slices.SortStableFunc(*reports, func(a, b state.UnreadReport) int {
		if a.Likely == b.Likely {
			return 0
		}
		if a.Likely {
			return -1
		}
		return 1
	})
	for range min(reportsAtOnce, len(*reports)) {
		if sc.late() {
			return nil
		}
		if err := sc.takeReport((*reports)[0].UID); err != nil {
			if (*reports)[0].Tries++; (*reports)[0].Tries >= maxReportTries {
				*reports = slices.Delete(*reports, 0, 1)
			}
			return err
		}
		*reports = slices.Delete(*reports, 0, 1)
	}
	return nil
}

// takeReport reads the beginning of one report. A report that the server refuses to
// show says nothing.
func (sc *scanner) takeReport(uid uint32) error {
	section := &imap.FetchItemBodySection{Peek: true, Partial: &imap.SectionPartial{Size: reportLength}}
	heads, err := sc.heads(uidSet([]uint32{uid}), reportLength, section, nil)
	if err != nil && !serverRefused(err) {
		return err
	}
	for _, h := range heads {
		if h.uid != uid || h.broken {
			continue
		}
		r, ok, forged := sc.filter.readReport(h.raw)
		if forged {
			sc.out.Forged++
		}
		if ok {
			r.Key, r.UID, r.At = fmt.Sprintf("mail:%s.%d.%d", sc.mailbox.ID(), sc.uidValidity, uid), uid, h.at
			sc.out.Returned = append(sc.out.Returned, r)
		}
	}
	return nil
}
