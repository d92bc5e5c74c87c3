package mail

import (
	"fmt"
	"slices"

	"agentstateloop/internal/order"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
)

// A delivery report describes the fate of a mail that a server had accepted (docs/protocol.md,
// "Our mail"). Anybody can send one, so a report must cost little. Its header must look like
// one. A scan reads only a few, and only the beginning of each. A report counts only if it
// shows a Message-ID whose MAC is ours.
const (
	maxReports     = 100       // waiting to be read
	reportsAtOnce  = 10        // read in one scan
	reportLength   = 256 << 10 // bytes of one report that are read
	maxReportTries = 3
)

// reporters are parts of the addresses that mail servers send reports from.
var reporters = []string{"mailer-daemon", "postmaster"}

// noteReport queues a mail that may be a delivery report, to be read after all other mail. If
// the queue is full, a likely report, which names one of our IDs, replaces one that does not.
func (sc *scanner) noteReport(h *head, likely bool) {
	reports := &sc.out.Cursor.Reports
	if slices.ContainsFunc(*reports, func(r state.UnreadReport) bool { return r.UID == h.uid }) {
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

// takeReports reads some of the queued delivery reports. Those that name one of our IDs come
// first.
func (sc *scanner) takeReports() error {
	reports := &sc.out.Cursor.Reports
	order.Stable(*reports, func(a, b state.UnreadReport) int {
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

// takeReport reads the beginning of one report. It ignores a report that the server refuses to
// show.
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
		r, ok, forged := sc.judge.Filter.ReadReport(h.raw)
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
