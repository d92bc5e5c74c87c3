package mailtest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"agentstateloop/internal/lazy"
)

// Answer is one answer of an IMAP server: texts and literals alternately, a text first. A text
// before a literal ends in the length of the literal.
type Answer [][]byte

// ReadAnswer reads one answer. With an error it returns the part read until then.
func ReadAnswer(r *bufio.Reader) (Answer, error) {
	var a Answer
	for {
		line, err := r.ReadBytes('\n')
		a = append(a, line)
		n, long := literalLength(line)
		if err != nil || !long {
			return a, err
		}
		literal := make([]byte, n)
		n, err = io.ReadFull(r, literal)
		a = append(a, literal[:n])
		if err != nil {
			return a, err
		}
	}
}

var literalEnd = lazy.NewRegexp(`\{(\d+)\}\r\n$`)

func literalLength(line []byte) (n int, ok bool) {
	m := literalEnd.Get().FindSubmatch(line)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(string(m[1]))
	return n, err == nil
}

// Bytes returns the answer as it was sent.
func (a Answer) Bytes() []byte { return bytes.Join(a, nil) }

var (
	fetchAnswer  = lazy.NewRegexp(`(?i)^\* \d+ FETCH `)
	answerUID    = lazy.NewRegexp(`(?i)\bUID (\d+)`)
	taggedOK     = lazy.NewRegexp(`(?i)^([^*+ ]\S*) OK\b.*\r\n$`)
	searchAnswer = lazy.NewRegexp(`(?i)^\* (?:SEARCH|ESEARCH .*\bALL)((?:[ ,][\d:]+)+)`)
	bodyItem     = lazy.NewRegexp(`(?i)( ?)(BODY\[([^\]]*)\](?:<\d+>)?) \{\d+\}\r\n$`)
)

// UID returns the UID that a FETCH answer is about, or 0.
func (a Answer) UID() uint32 {
	if len(a) == 0 || !fetchAnswer.Get().Match(a[0]) {
		return 0
	}
	for i := 0; i < len(a); i += 2 {
		if m := answerUID.Get().FindSubmatch(a[i]); m != nil {
			n, _ := strconv.ParseUint(string(m[1]), 10, 32)
			return uint32(n)
		}
	}
	return 0
}

// Found returns the UIDs that a SEARCH answer names.
func (a Answer) Found() (uids []uint32) {
	m := searchAnswer.Get().FindSubmatch(a[0])
	if m == nil {
		return nil
	}
	for _, r := range ranges(string(m[1])) {
		for uid := r.first; uid <= r.last && uid != 0; uid++ {
			uids = append(uids, uint32(uid))
		}
	}
	return uids
}

type uidRange struct{ first, last uint64 }

// ranges returns the ranges of a set of UIDs, which spaces or commas separate. "*" is beyond each UID.
func ranges(set string) (all []uidRange) {
	for part := range strings.FieldsFuncSeq(set, func(r rune) bool { return r == ' ' || r == ',' }) {
		first, last, isRange := strings.Cut(part, ":")
		if !isRange {
			last = first
		}
		from, _ := strconv.ParseUint(first, 10, 32)
		to, err := strconv.ParseUint(last, 10, 32)
		if err != nil {
			to = 1 << 32
		}
		all = append(all, uidRange{from, to})
	}
	return all
}

// Part returns which part of a mail a FETCH answer contains: "head", "body" or "".
func (a Answer) Part() string {
	for i := 0; i < len(a)-1; i += 2 {
		m := bodyItem.Get().FindSubmatch(a[i])
		switch {
		case m == nil:
		case strings.HasPrefix(strings.ToUpper(string(m[3])), "HEADER"):
			return "head"
		default:
			return "body"
		}
	}
	return ""
}

// WithBody returns the answer with words in place of each body: "{0}\r\n" for an empty body,
// "NIL" for a missing one. With "" the answer does not mention the body at all.
func (a Answer) WithBody(words string) Answer {
	var other []byte
	for i := 0; i < len(a); i++ {
		m := bodyItem.Get().FindSubmatchIndex(a[i])
		if i%2 == 1 || m == nil || i+1 == len(a) {
			other = append(other, a[i]...)
			continue
		}
		if words == "" {
			other = append(other, a[i][:m[0]]...)
		} else {
			other = append(append(append(other, a[i][:m[5]]...), ' '), words...)
		}
		i++ // its literal
	}
	return Answer{other}
}

// Refused returns the answer with word, "NO" or "BAD", in place of the OK that ends a command.
// ok reports whether a ends a command with OK.
func (a Answer) Refused(word string) (refused Answer, ok bool) {
	m := taggedOK.Get().FindSubmatch(a[0])
	if m == nil {
		return a, false
	}
	return Answer{fmt.Appendf(nil, "%s %s internal error\r\n", m[1], word)}, true
}
