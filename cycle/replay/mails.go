package replay

import (
	"bytes"
	netmail "net/mail"
	"slices"
	"strings"
	"time"

	"agentstateloop/mail/message"
)

// Mails are the mails of a folder or a file, with the times at which they came.
type Mails struct {
	all  []Mail
	last time.Time // of the mail added last

	Undated   int // mails without a date; they are left out
	Future    int // mails from after now; they are left out
	Unordered int // mails that are older than the one before them in their file
}

// Add adds a mail. stamp is the time of its arrival by the file that holds it, or zero; ordered is
// set if the file holds its mails in the order of their arrival.
func (ms *Mails) Add(m Mail, header []byte, stamp time.Time, ordered bool, now time.Time) {
	m.At = Arrival(header, stamp)
	switch {
	case m.At.IsZero():
		ms.Undated++
		return
	case m.At.After(now):
		ms.Future++
		return
	}
	if ordered && m.At.Before(ms.last) {
		ms.Unordered++
	}
	ms.last = m.At
	ms.all = append(ms.all, m)
}

// Last returns when the last mail came, or the zero time without a mail.
func (ms *Mails) Last() time.Time {
	var last time.Time
	for _, m := range ms.all {
		last = latest(last, m.At)
	}
	return last
}

// Between returns the mails of a time, sorted. A mail at its end is not one of them.
func (ms *Mails) Between(from, to time.Time) []Mail {
	some := slices.DeleteFunc(slices.Clone(ms.all), func(m Mail) bool { return m.At.Before(from) || !m.At.Before(to) })
	slices.SortStableFunc(some, func(a, b Mail) int { return a.At.Compare(b.At) })
	return some
}

// Arrival returns when a mail came, in UTC: the time of the topmost Received field, which the last
// server wrote; or else stamp, from the file that holds the mail; or else the field Date, which the
// sender wrote. It returns the zero time if the mail has none of them. The topmost field comes first,
// because programs that copy mail keep it, but give files new names and times.
func Arrival(header []byte, stamp time.Time) time.Time {
	var received, date time.Time
	topmost := true
	for _, f := range message.Fields(header) {
		switch {
		case f.Name == "received" && topmost:
			topmost = false
			received = parseDate(f.Value[strings.LastIndexByte(f.Value, ';')+1:])
		case f.Name == "date" && date.IsZero():
			date = parseDate(f.Value)
		}
	}
	for _, at := range []time.Time{received, stamp, date} {
		if !at.IsZero() {
			return at.UTC()
		}
	}
	return time.Time{}
}

// parseDate parses the date of a field, or returns the zero time.
func parseDate(text string) time.Time {
	at, err := netmail.ParseDate(strings.TrimSpace(text))
	if err != nil || at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}
	}
	return at
}

// StampOfName returns the time in the name of a file of a Maildir, at which its server stored it, or
// the zero time: 1700000000.M1P2.host:2,S.
func StampOfName(name string) time.Time {
	seconds, _, ok := strings.Cut(name, ".")
	n := int64(0)
	for _, digit := range []byte(seconds) {
		if digit < '0' || digit > '9' || len(seconds) > 11 {
			return time.Time{}
		}
		n = n*10 + int64(digit-'0')
	}
	if !ok || n < 100_000_000 {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// StampOfFrom returns the time in the From line of an mbox, or the zero time: From MAILER-DAEMON Fri
// Jul  8 12:08:34 2011. The line has no zone; by custom it is UTC.
func StampOfFrom(line []byte) time.Time {
	fields := strings.Fields(string(bytes.TrimSpace(line)))
	if len(fields) < 6 {
		return time.Time{}
	}
	for n := 5; n <= min(6, len(fields)); n++ {
		for _, layout := range []string{"Mon Jan 2 15:04:05 2006", "Mon Jan 2 15:04:05 2006 -0700", "Mon Jan 2 15:04 2006"} {
			if at, err := time.Parse(layout, strings.Join(fields[len(fields)-n:], " ")); err == nil {
				return at.UTC()
			}
		}
	}
	return time.Time{}
}
