package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// Arbiter decides between the hosts of one agent which state is the next (docs/decisions/0077). An
// agent that lives on one host has none.
type Arbiter interface {
	// Base makes the cache hold the newest accepted state, or returns the reason why this host may
	// not change it. Commit calls it before it steps.
	Base(ctx context.Context, c *Cache) error

	// Accept offers the next state, as the JSON data, to the other hosts. Commit calls it before it
	// writes the state, and writes nothing after an error. ErrRebase asks for a step from the state
	// that Base finds now.
	Accept(ctx context.Context, c *Cache, next state.State, data []byte) error
}

// ErrRebase means that the state is not the newest one: an earlier offer of this host came late.
var ErrRebase = errors.New("an earlier change of the state was accepted late")

// rebases is how often a commit steps again because of ErrRebase.
const rebases = 3

// fleetPatience is how long a commit waits for others if they wait for servers.
const fleetPatience = 3 * time.Minute

// Cache is the state directory of a host, while state.lock is held. With an arbiter it is a copy of
// the accepted state.
type Cache struct {
	State    state.State
	Recovery Recovery // without Copied: the arbiter decides what a copy is worth

	st  *Store
	old stored
}

// Exclusive calls do with the state while it holds state.lock.
func (st *Store) Exclusive(ctx context.Context, do func(c *Cache) error) error {
	if err := st.makeDir(); err != nil {
		return err
	}
	lock, err := st.lockState(ctx)
	if err != nil {
		return err
	}
	defer lock.Unlock()
	c, err := st.cache()
	if err != nil {
		return err
	}
	return do(c)
}

// cache reads the state. The caller holds state.lock.
func (st *Store) cache() (*Cache, error) {
	c := &Cache{st: st}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Cache) load() (err error) {
	c.old, c.Recovery, err = c.st.loadStored()
	c.State = c.old.State
	if c.st.Arbiter != nil {
		c.Recovery.Copied = false
	}
	return err
}

// Data returns the state as JSON, as Accept gets it.
func (c *Cache) Data() ([]byte, error) { return c.st.encodeFor(c.old) }

// encodeFor returns the JSON of a state without the members that belong to a file.
func (st *Store) encodeFor(s stored) ([]byte, error) {
	s.Settled, s.File = false, ""
	data, _, err := encodeState(nil, &s, nil)
	return data, err
}

// Install replaces the state by an accepted one, which is JSON from Data or Accept. First it
// appends those lines to the history that it lacks: raw lines with their sums and newlines, the
// oldest first.
func (c *Cache) Install(data []byte, lines [][]byte, now time.Time) error {
	s, err := c.st.decode(stateFile, data)
	if err != nil {
		return fmt.Errorf("accepted state: %w", err)
	}
	if c.Recovery.Reason != "" {
		if err := c.st.finishEarlier(c.old, c.Recovery, now); err != nil {
			return err
		}
	}
	if err := c.Append(lines); err != nil {
		return err
	}
	if err := c.st.write(s); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	if err := c.load(); err != nil {
		return err
	}
	return c.st.finishEarlier(c.old, c.Recovery, now)
}

// Append appends those raw lines to the history that it lacks.
func (c *Cache) Append(lines [][]byte) error {
	if err := c.st.appendRaw(lines); err != nil {
		return fmt.Errorf("append history: %w", err)
	}
	return nil
}

// SetAside renames the state and the history, which another life of the agent has left. They stay
// in the directory.
func (c *Cache) SetAside(now time.Time) error {
	names, err := c.st.historyFiles()
	if err != nil {
		return err
	}
	for _, name := range append([]string{stateFile, prevFile}, baseNames(names)...) {
		if err := c.st.setAside(name, "replaced", now); err != nil {
			return err
		}
	}
	c.st.synced.Store(0)
	return c.load()
}

func baseNames(paths []string) (names []string) {
	for _, p := range paths {
		names = append(names, p[strings.LastIndexByte(p, '/')+1:])
	}
	return names
}

// LinesAfter returns the raw lines of the history after a position, the oldest first. It looks into
// the file of each month: a clock that was wrong has put them into another one than the newest.
func (st *Store) LinesAfter(serial uint64, n int) (lines [][]byte, err error) {
	names, err := st.historyFiles()
	if err != nil {
		return nil, err
	}
	type placed struct {
		Place
		raw []byte
	}
	var found []placed
	limit := int64(math.MaxInt64)
	newer := true
	keep := func(raw []byte) (state.Line, bool) {
		l, ours := parseLine(raw)
		if ours && !l.After(serial, n) {
			newer = false
		} else if ours {
			found = append(found, placed{Place{l.Serial, l.N}, append(bytes.Clone(raw), '\n')})
		}
		return l, ours
	}
	var failed error
	for _, name := range names {
		newer = true
		yieldNewest(name, &limit, keep, func(_ state.Line, err error) bool {
			failed = errors.Join(failed, err)
			return newer && err == nil
		})
	}
	order.Sort(found, func(a, b placed) int { return a.compare(b.Place) })
	for _, f := range found {
		lines = append(lines, f.raw)
	}
	return lines, failed
}

// Place is the position of a line in the history.
type Place struct {
	Serial uint64 `json:"serial"`
	N      int    `json:"n"`
}

func (p Place) compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Serial, q.Serial), cmp.Compare(p.N, q.N))
}

// PlaceOf returns the position of a raw line. ok is false for a line that is not ours.
func PlaceOf(raw []byte) (p Place, ok bool) {
	l, ok := parseLine(bytes.TrimSuffix(raw, []byte("\n")))
	return Place{l.Serial, l.N}, ok
}

// LastPlace returns the position of the newest line in the files of the history, whatever its month.
func (st *Store) LastPlace() (p Place, err error) {
	names, err := st.historyFiles()
	if err != nil {
		return p, err
	}
	for _, name := range names {
		l, err := st.lastLine(name[strings.LastIndexByte(name, '/')+1:])
		if err != nil {
			return p, err
		}
		if last := (Place{l.Serial, l.N}); last.compare(p) > 0 {
			p = last
		}
	}
	return p, nil
}

// appendRaw appends those raw lines that the history lacks, each to the file of its month.
func (st *Store) appendRaw(lines [][]byte) error {
	last, err := st.LastPlace()
	if err != nil {
		return err
	}
	var month string
	var batch []sealedLine
	for _, raw := range lines {
		l, ours := parseLine(bytes.TrimSuffix(raw, []byte("\n")))
		if !ours || !l.After(last.Serial, last.N) {
			continue
		}
		if name := historyName(l.At); name != month {
			if err := st.appendSealed(batch); err != nil {
				return err
			}
			month, batch = name, nil
		}
		batch = append(batch, sealedLine{line: l, data: raw})
		last = Place{l.Serial, l.N}
	}
	return st.appendSealed(batch)
}

// FleetFile is a file of the directory of an agent with several hosts. See package fleet/seat.
const FleetFile = "fleet.json"

// errFleet refuses the commit of a process that began before the agent had several hosts, or that has
// another configuration.
var errFleet = errors.New("this agent lives on several hosts now, and this process does not know: start it again")

// inFleet reports whether the directory is that of an agent with several hosts.
func (st *Store) inFleet() bool {
	_, err := os.Lstat(st.path(FleetFile))
	return err == nil
}

// KeepIdentified writes data, a JSON object that ends in a newline, durably to a file of the
// directory, with the identity of that file as its last member.
func (st *Store) KeepIdentified(name string, data []byte) error {
	tmp, path := st.path(name+".tmp"), st.path(name)
	f, err := createNew(tmp)
	if err != nil {
		return err
	}
	if err := writeAndSync(st.Hook, f, bytes.NewReader(identified(data, osfile.Identify(f)))); err != nil {
		return errors.Join(err, f.Close(), removeIfThere(tmp))
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := st.Hook.at("rename", path); err != nil {
		return err
	}
	if err := renameOver(tmp, path); err != nil {
		return err
	}
	return syncDir(st.Hook, st.Dir)
}

// ReadIdentified reads a file that KeepIdentified wrote. copied is set if the file is a copy of it.
func (st *Store) ReadIdentified(name string, limit int64) (data []byte, copied bool, err error) {
	f, err := osfile.OpenAtMost(st.path(name), limit)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if data, err = osfile.ReadAll(f, limit); err != nil {
		return nil, false, err
	}
	var in struct {
		File string `json:"file"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, false, fmt.Errorf("%s is damaged: %w", f.Name(), err)
	}
	return data, osfile.Identify(f).IsCopyOf(osfile.ParseIdentity(in.File)), nil
}
