package memory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/fleet"
)

// stream keeps messages.
type stream struct {
	config  fleet.Stream
	shown   map[string]any // the configuration as it was asked for
	created time.Time

	messages  []*stored // by number
	subjects  map[string][]*stored
	last      uint64 // the number of the newest, even if it is gone
	bytes     int64
	seen      map[string]seen // the ids of messages, which count for the time of their window
	consumers []*consumer     // in the order of their names
}

// stored is a message in a stream.
type stored struct {
	message
	sequence uint64
	at       time.Time
	ends     time.Time // when its own time is over; zero: never
}

// seen is a message that had an id.
type seen struct {
	sequence uint64
	at       time.Time
}

// size is what a server counts for a message on its disk.
func (m *stored) size() int64 { return sizeOf(m.message) }

func sizeOf(m message) int64 {
	const record, forHeader = 30, 4
	size := record + len(m.subject) + len(m.body)
	if len(m.header) > 0 {
		size += forHeader + len(m.header)
	}
	return int64(size)
}

func (e *Engine) makeStream(config fleet.Stream) *stream {
	s := &stream{config: config, created: e.now(), subjects: map[string][]*stored{}, seen: map[string]seen{}}
	data, _ := json.Marshal(config) // of strings, numbers and booleans
	_ = json.Unmarshal(data, &s.shown)
	e.streams = append(e.streams, s)
	return s
}

func (s *stream) stores(subject string) bool { return covers(s.config.Subjects, subject) }

// age removes what is too old.
func (s *stream) age(now time.Time) {
	if s.config.MaxAge <= 0 && !s.config.TTL {
		return
	}
	for _, m := range slices.Clone(s.messages) {
		if s.config.MaxAge > 0 && !now.Before(m.at.Add(s.config.MaxAge)) || !m.ends.IsZero() && !now.Before(m.ends) {
			s.remove(m)
		}
	}
}

// known returns the number of the message that had an id lately; 0 if none had.
func (s *stream) known(id string, now time.Time) uint64 {
	if known := s.seen[id]; now.Before(known.at.Add(s.config.Duplicates)) {
		return known.sequence
	}
	return 0
}

func (s *stream) remove(m *stored) {
	at, found := s.find(m.sequence)
	if !found {
		return
	}
	s.messages = slices.Delete(s.messages, at, at+1)
	left := slices.DeleteFunc(s.subjects[m.subject], func(other *stored) bool { return other == m })
	if s.subjects[m.subject] = left; len(left) == 0 {
		delete(s.subjects, m.subject)
	}
	s.bytes -= m.size()
}

// find returns where the first message with that number or a higher one is, and whether it
// has that number.
func (s *stream) find(sequence uint64) (int, bool) {
	return slices.BinarySearchFunc(s.messages, sequence, func(m *stored, n uint64) int { return cmp.Compare(m.sequence, n) })
}

// next returns the first message of a subject from a number on; nil if there is none.
func (s *stream) next(subject string, from uint64) *stored {
	at, _ := s.find(from)
	for _, m := range s.messages[at:] {
		if matches(subject, m.subject) {
			return m
		}
	}
	return nil
}

// count returns how many messages of a subject there are from a number on.
func (s *stream) count(subject string, from uint64) (n int) {
	at, _ := s.find(from)
	for _, m := range s.messages[at:] {
		if matches(subject, m.subject) {
			n++
		}
	}
	return n
}

// newest returns the newest message of a subject; nil if there is none.
func (s *stream) newest(subject string) *stored {
	all := s.subjects[subject]
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// refusal is an error of JetStream.
type refusal struct {
	Code   int    `json:"code"`
	Number int    `json:"err_code"`
	Text   string `json:"description"`
}

// publish stores a message, and returns the acknowledgement of that or the reason why not.
func (s *stream) publish(m message, now time.Time, replicas int) []byte {
	m.header = withoutStatus(m.header)
	duplicate, refused := s.check(m, now, replicas)
	switch {
	case refused != nil:
		data, _ := json.Marshal(struct {
			Error  *refusal `json:"error"`
			Stream string   `json:"stream"`
			Number uint64   `json:"seq"`
		}{refused, s.config.Name, 0})
		return data
	case duplicate > 0:
		return fmt.Appendf(nil, `{"stream":%q,"seq":%d,"duplicate": true}`, s.config.Name, duplicate)
	}
	return fmt.Appendf(nil, `{"stream":%q,"seq":%d}`, s.config.Name, s.store(m, now).sequence)
}

// check returns the number of the message of which m is a duplicate, or why m is refused.
// One server looks at what the sender expects first, and a cluster at the id.
func (s *stream) check(m message, now time.Time, replicas int) (duplicate uint64, refused *refusal) {
	if s.config.MaxSize >= 0 && len(m.header)+len(m.body) > s.config.MaxSize {
		return 0, &refusal{400, 10054, "message size exceeds maximum allowed"}
	}
	ttl, err := lifetime(m.header)
	if !s.config.TTL && (ttl != 0 || err != nil && replicas > 1) {
		return 0, &refusal{400, 10166, "per-message TTL is disabled"}
	}
	wrongTTL := func() *refusal {
		if err == nil {
			return nil
		}
		return &refusal{400, 10165, "invalid per-message TTL"}
	}
	if replicas > 1 {
		if refused := wrongTTL(); refused != nil {
			return 0, refused
		}
	}
	known := s.known(field(m.header, "Nats-Msg-Id"), now)
	if replicas > 1 && known > 0 {
		return known, nil
	}
	if refused := s.unexpected(m); refused != nil {
		return 0, refused
	}
	if known > 0 {
		return known, nil
	}
	if refused := wrongTTL(); refused != nil {
		return 0, refused
	}
	return 0, s.full(m)
}

// unexpected returns the refusal of a message whose sender expects another number to be
// the newest of its subject.
func (s *stream) unexpected(m message) *refusal {
	expected, err := strconv.ParseUint(field(m.header, "Nats-Expected-Last-Subject-Sequence"), 10, 64)
	if err != nil {
		return nil // it expects nothing
	}
	var newest uint64
	if m := s.newest(m.subject); m != nil {
		newest = m.sequence
	}
	if newest == expected {
		return nil
	}
	return &refusal{400, 10071, "wrong last sequence: " + strconv.FormatUint(newest, 10)}
}

// full returns the refusal of a message for which a limit leaves too little room.
func (s *stream) full(m message) *refusal {
	if s.config.Discard != "new" {
		return nil
	}
	there := s.subjects[m.subject]
	over := s.config.PerSubject > 0 && len(there) >= s.config.PerSubject
	if over && s.config.DiscardNewPerSubject {
		return &refusal{503, 10077, "maximum messages per subject exceeded"}
	}
	size := sizeOf(m)
	if s.config.MaxBytes > 0 && s.bytes+size > s.config.MaxBytes && (!over || there[0].size() < size) {
		return &refusal{503, 10077, "maximum bytes exceeded"}
	}
	return nil
}

// lifetime returns how long a message wants to stay; 0: for ever.
func lifetime(header []byte) (time.Duration, error) {
	text := field(header, "Nats-TTL")
	if text == "" || strings.EqualFold(text, "never") {
		return 0, nil
	}
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < time.Second {
		err = strconv.ErrRange
	}
	return d.Truncate(time.Second), err
}

// store stores a message, and removes what it replaces.
func (s *stream) store(m message, now time.Time) *stored {
	s.last++
	m.reply = ""
	kept := &stored{message: m, sequence: s.last, at: now}
	if ttl, _ := lifetime(m.header); ttl > 0 {
		kept.ends = now.Add(ttl)
	}
	s.messages = append(s.messages, kept)
	s.subjects[m.subject] = append(s.subjects[m.subject], kept)
	s.bytes += kept.size()
	if id := field(m.header, "Nats-Msg-Id"); id != "" {
		s.seen[id] = seen{kept.sequence, now}
	}
	for s.config.PerSubject > 0 && len(s.subjects[m.subject]) > s.config.PerSubject {
		s.remove(s.subjects[m.subject][0])
	}
	for s.config.MaxBytes > 0 && s.bytes > s.config.MaxBytes {
		s.remove(s.messages[0])
	}
	return kept
}

// restart forgets what a server does not keep on its disk. It knows the ids of what it
// still stores; in a cluster the other servers know all.
func (s *stream) restart(replicas int) {
	for _, c := range s.consumers {
		c.restart()
	}
	if replicas > 1 {
		return
	}
	clear(s.seen)
	for _, m := range s.messages {
		if id := field(m.header, "Nats-Msg-Id"); id != "" {
			s.seen[id] = seen{m.sequence, m.at}
		}
	}
}
