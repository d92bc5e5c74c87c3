package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/state"
)

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

// step commits one step of the machine.
func step(t *testing.T, st *Store) state.State {
	t.Helper()
	s, err := st.Commit(context.Background(), noon, func(s state.State, _ Recovery) (state.State, error) {
		return state.Step(s, nil, state.Policy{}, noon), nil
	})
	check(t, err)
	return s
}

func TestIDKeyIsCreatedOnce(t *testing.T) {
	lose := func(t *testing.T, st *Store) {
		step(t, st)
		check(t, os.Remove(st.path(IDKeyFile)))
	}
	damage := func(text string) func(*testing.T, *Store) {
		return func(t *testing.T, st *Store) {
			step(t, st)
			check(t, os.WriteFile(st.path(IDKeyFile), []byte(text), 0o600))
		}
	}
	for name, c := range map[string]struct {
		prepare func(*testing.T, *Store)
		want    KeyCause
	}{
		"a new directory":     {func(*testing.T, *Store) {}, KeyOfNew},
		"a key that is lost":  {lose, KeyLost},
		"an empty key":        {damage(""), KeyDamaged},
		"no JSON":             {damage("\x00\x01\x02"), KeyDamaged},
		"a short secret":      {damage(`{"secret":"AAAA","made":"2026-01-05T12:00:00Z","cause":"lost"}`), KeyDamaged},
		"no time":             {damage(`{"secret":"` + strings.Repeat("A", 43) + `="}`), KeyDamaged},
		"a very long file":    {damage(strings.Repeat(" ", 10_000)), KeyDamaged},
		"a key cut in halves": {damage(`{"secret":"` + strings.Repeat("A", 20)), KeyDamaged},
		"a folder": {func(t *testing.T, st *Store) {
			lose(t, st)
			check(t, os.Mkdir(st.path(IDKeyFile), 0o700))
		}, KeyDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			st := &Store{Dir: filepath.Join(t.TempDir(), "state"), Agent: "goulard"}
			c.prepare(t, st)
			peeked, err := st.PeekIDKey(noon)
			if err != nil || peeked.Cause != c.want {
				t.Errorf("a look finds %q, %v", peeked.Cause, err)
			}
			key, err := st.IDKey(noon)
			if err != nil || key.Cause != c.want || len(key.Secret) != secretLength {
				t.Fatalf("made %q of %d bytes, %v; want %q", key.Cause, len(key.Secret), err, c.want)
			}
			step(t, st)
			again, err := st.IDKey(noon.Add(time.Hour))
			if err != nil || !bytes.Equal(again.Secret, key.Secret) || again.Cause != key.Cause || !again.Made.Equal(noon) {
				t.Errorf("the next one is another: %v", err)
			}
			if info, err := os.Stat(st.path(IDKeyFile)); err != nil || info.Mode() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			aside, _ := filepath.Glob(st.path(IDKeyFile + ".damaged-*"))
			if (len(aside) == 1) != (c.want == KeyDamaged) {
				t.Errorf("set aside: %v", aside)
			}
			log, _ := os.ReadFile(st.path("log"))
			if logged := strings.Contains(string(log), IDKeyFile); logged != (c.want == KeyDamaged || c.want == KeyLost) {
				t.Errorf("the log says: %s", log)
			}
		})
	}
}

// Processes that start at the same time agree on one key: some commit, some only
// want the key, and the file may be damaged.
func TestProcessesAgreeOnOneIDKey(t *testing.T) {
	for name, before := range map[string]string{"no file": "", "a damaged file": "nonsense"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if before != "" {
				check(t, os.WriteFile(filepath.Join(dir, IDKeyFile), []byte(before), 0o600))
			}
			const processes = 16
			var keys [processes]IDKey
			var wg sync.WaitGroup
			for i := range processes {
				wg.Go(func() {
					st := &Store{Dir: dir, Agent: "goulard"} // locks like another process
					if i%2 == 0 {
						step(t, st)
					}
					var err error
					if keys[i], err = st.IDKey(noon); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for i, k := range keys {
				if !bytes.Equal(k.Secret, keys[0].Secret) {
					t.Errorf("process %d has another key", i)
				}
			}
		})
	}
}

// Wherever making a key breaks off, no half of one is believed, and no process
// uses one that the next does not find.
func TestIDKeyAfterCrash(t *testing.T) {
	for n := 1; ; n++ {
		st := &Store{Dir: t.TempDir(), Agent: "goulard"}
		step(t, st)
		check(t, os.Remove(st.path(IDKeyFile)))
		steps, crashed := 0, false
		st.Hook = func(op, path string) error {
			if steps++; steps == n {
				crashed = true
				return errNoSpace
			}
			return nil
		}
		used, err := st.IDKey(noon)
		if crashed == (err == nil) {
			t.Errorf("step %d: crashed %v, error %v", n, crashed, err)
		}
		st.Hook = nil
		next, err := st.IDKey(noon.Add(time.Hour))
		if err != nil || next.Cause != KeyLost || used.Secret != nil && !bytes.Equal(used.Secret, next.Secret) {
			t.Errorf("step %d: the next process has a key because of %q, %v", n, next.Cause, err)
		}
		if !crashed {
			break
		}
	}
}

// No error and no log line repeats the key.
func TestIDKeyStaysSecret(t *testing.T) {
	st := &Store{Dir: t.TempDir(), Agent: "goulard"}
	const secret = "c2VjcmV0IHNlY3JldA=="
	check(t, os.WriteFile(st.path(IDKeyFile), []byte(`{"secret":"`+secret+`","made":"`+secret+`"}`), 0o600))
	_, err := st.ReadIDKey()
	if err == nil || errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
	if _, err := st.IDKey(noon); err != nil {
		t.Fatal(err)
	}
	if log, _ := os.ReadFile(st.path("log")); strings.Contains(string(log), secret) || len(log) == 0 {
		t.Errorf("log %s", log)
	}
}
